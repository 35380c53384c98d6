// Longer than 300 lines: it is one list of what a peer can try.
import type { Connection } from '@verbmq/core';
import { client, rpcStats } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { turns } from '../support/expectations.js';
import { take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { type Attacked, attackedOver } from './attacked.js';
import {
  CALL,
  CANCEL,
  CREDIT,
  CREDIT_TO_CALLER,
  END,
  ERROR,
  GIB2,
  ITEM,
  ITEM_TO_CALLER,
  METADATA,
  METHODS,
  MIB,
  manyMethods,
  NAMED,
  named,
  number,
  PARTIAL,
  PIECE,
  PIECE_TO_CALLER,
  RAW,
  RESULT,
  STREAM_IN,
  STREAM_OUT,
  type service,
  text,
} from './frames.js';
import { collect, errorOf, until, verbmqErrorOf } from './support.js';

/** What a peer can try, and what becomes of it. */
export function hostilePeers(setUp: SetUp): void {
  const attacked = (options = {}): Promise<Attacked> => attackedOver(setUp, options);

  describe('frames that end the connection', () => {
    const cases: [string, number[][]][] = [
      ['nothing', [[]]],
      ['a head that is cut off', [[CALL, 0]]],
      ['a type that is none', [[0x40, 0, 1]]],
      ['a type to the caller that is none', [[0xff, 0, 1]]],
      ['a number without end', [[CALL, 0, ...new Array<number>(20).fill(0xff)]]],
      ['a number beyond 2^53', [[CALL, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]]],
      ['the call 0', [[CALL, 0, 0, 0]]],
      ['a call twice', [named(1, 'hang'), named(1, 'hang')]],
      ['a call with an older number', [named(5, 'hang'), named(4, 'hang')]],
      ['a method whose name is cut off', [[CALL, NAMED, 1, 9, 0x61]]],
      [
        'a method with a name of 10,000 bytes',
        [[CALL, NAMED, 1, 0x90, 0x4e, ...new Array<number>(10_000).fill(0x61)]],
      ],
      ['a codec whose name is cut off', [[CALL, NAMED, 1, ...text('echo'), 9, 0x61]]],
      ['methods without a codec', [[METHODS, 1, 0]]],
      ['metadata that are cut off', [named(1, 'echo', METADATA, 200)]],
      ['metadata of 4 billion entries', [named(1, 'echo', METADATA, 0xff, 0xff, 0xff, 0xff, 0x0f)]],
      ['a cancellation of a call that nobody made', [[CANCEL, 0, 9]]],
      ['an item of a call that nobody made', [[ITEM, 0, 9, 1]]],
      ['an item of a call that is no stream', [named(1, 'hang'), [ITEM, 0, 1, 1]]],
      ['the end of no stream', [named(1, 'hang'), [END, 0, 1]]],
      ['a piece of nothing', [named(1, 'hang'), [PIECE, 0, 1, 1]]],
      ['a body in pieces of which there is none', [named(1, 'echo', PARTIAL | RAW, 0)]],
      ['an item in pieces of which there is none', [named(1, 'ignore', STREAM_IN), [ITEM, PARTIAL, 1, 0]]],
      ['an empty piece', [named(1, 'echo', PARTIAL | RAW, ...MIB), [PIECE, 0, 1]]],
      ['more pieces than announced', [named(1, 'echo', PARTIAL | RAW, 2), [PIECE, 0, 1, 1, 2, 3]]],
      ['a stream that has a body besides', [named(1, 'ignore', STREAM_IN, 1)]],
      [
        'an item within an item',
        [named(1, 'ignore', STREAM_IN), [ITEM, PARTIAL, 1, ...MIB], [ITEM, 0, 1, 1]],
      ],
      ['the end within an item', [named(1, 'ignore', STREAM_IN), [ITEM, PARTIAL, 1, ...MIB], [END, 0, 1]]],
      ['an answer to nobody', [[RESULT, 0, 1, 1]]],
      ['an error to nobody', [[ERROR, 0, 1, 0, 0, 0]]],
      ['an item to nobody', [[ITEM_TO_CALLER, 0, 1, 1]]],
      ['methods of another version', [[METHODS, 99, 0, 1, 0x61]]],
      ['methods that do not begin with the first', [[METHODS, 1, 1, ...text('msgpack'), 1, 0x61]]],
      [
        'methods twice',
        [
          [METHODS, 1, 0, ...text('msgpack'), 1, 0x61],
          [METHODS, 1, 0, ...text('msgpack'), 1, 0x62],
        ],
      ],
      ['a method that was told before', [[METHODS, 1, 0, ...text('msgpack'), 1, 0x61, 1, 0x61]]],
      [
        'methods of two codecs',
        [
          [METHODS, 1, 0, ...text('msgpack'), 1, 0x61],
          [METHODS, 1, 1, ...text('json'), 1, 0x62],
        ],
      ],
      ['more methods than there may be', manyMethods(4097)],
      ['credit without a number', [named(1, 'endless', STREAM_OUT), [CREDIT, 0, 1]]],
      [
        'credit without bounds',
        [named(1, 'endless', STREAM_OUT), [CREDIT, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]],
      ],
      [
        'credit without bounds for a stream that has not begun',
        [named(1, 'hang', STREAM_OUT), [CREDIT, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]],
      ],
    ];
    for (const [title, frames] of cases) {
      test(title, async () => {
        const { raw, far, send } = await attacked();
        for (const frame of frames) send(...frame);
        const { error } = await raw.closed;
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_PEER_ABORTED' });
        expect(error?.message).toMatch(/rpc: /);
        await far.closed;
        expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
      });
    }
  });

  describe('frames that fail their call alone', () => {
    const cases: [string, number[], string][] = [
      ['a method that is not there', named(1, 'nothing'), 'ERR_VERBMQ_RPC_UNKNOWN_METHOD'],
      ['another codec', [CALL, NAMED, 1, ...text('echo'), ...text('json'), 0x31], 'ERR_VERBMQ_DECODE'],
      ['a method whose number is not given', [CALL, 0, 1, 99], 'ERR_VERBMQ_RPC_UNKNOWN_METHOD'],
      ['an array of 4 billion', named(1, 'echo', 0, 0xdd, 0xff, 0xff, 0xff, 0xff), 'ERR_VERBMQ_DECODE'],
      ['deep nesting', named(1, 'echo', 0, ...new Array<number>(10_000).fill(0x91), 1), 'ERR_VERBMQ_DECODE'],
      ['a type of the codec', named(1, 'echo', 0, 0xd4, 0x72, 0x40, 0x90), 'ERR_VERBMQ_DECODE'],
      ['a body of 2 GiB', named(1, 'echo', PARTIAL | RAW, ...GIB2), 'ERR_VERBMQ_MESSAGE_TOO_LARGE'],
    ];
    for (const [title, frame, code] of cases) {
      test(title, async () => {
        const { raw, send } = await attacked();
        send(...frame);
        send(...named(2, 'echo', 0, 42));
        const [refusal, answer] = await take(raw, 2);
        expect([...(refusal as Uint8Array).subarray(0, 3)]).toEqual([ERROR, 0, 1]);
        expect(Buffer.from(refusal as Uint8Array).toString()).toContain(code);
        expect([...(answer as Uint8Array)]).toEqual([RESULT, 0, 2, 42]);
      });
    }

    test('__proto__ in a body changes nothing', async () => {
      const { raw, send } = await attacked();
      const body = [0x81, ...[0xa9, ...Buffer.from('__proto__')], 0x81, 0xa1, 0x61, 1];
      send(...named(1, 'echo', 0, ...body));
      await take(raw, 1);
      expect('a' in {}).toBe(false);
    });

    test('what comes for a call that has been answered is nobody’s business', async () => {
      const { raw, send } = await attacked();
      send(...named(1, 'echo', 0, 1));
      for (const frame of [
        [CANCEL, 0, 1],
        [ITEM, 0, 1, 1],
        [END, 0, 1],
        [CREDIT, 0, 1, 5],
        [PIECE, 0, 1, 1],
      ])
        send(...frame);
      send(...named(2, 'echo', 0, 2));
      expect((await take(raw, 2)).map((frame) => [...frame])).toEqual([
        [RESULT, 0, 1, 1],
        [RESULT, 0, 2, 2],
      ]);
    });
  });

  describe('memory stays bounded', () => {
    test('a stream that ignores its window ends the connection', async () => {
      const { raw, far } = await attacked();
      raw.trySend(Uint8Array.from(named(1, 'ignore', STREAM_IN)));
      let sent = 0;
      while (raw.state === 'open') {
        await raw
          .send(Buffer.concat([Uint8Array.from([ITEM, RAW, 1]), new Uint8Array(10_000)]))
          .catch(() => {});
        sent++;
      }
      expect((await far.closed).error?.code).toBe('ERR_VERBMQ_ABORTED');
      expect(sent).toBeLessThan(600); // the connection's own window, and the stream's
    });

    test('empty items are not free', async () => {
      const { raw } = await attacked();
      raw.trySend(Uint8Array.from(named(1, 'ignore', STREAM_IN)));
      let sent = 0;
      while (raw.state === 'open') {
        await raw.send(Uint8Array.from([ITEM, 0, 1])).catch(() => {});
        sent++;
      }
      expect(sent).toBeLessThan(150_000); // what the connection takes meanwhile, and the stream's window
    });

    test('large bodies that are begun and never finished are limited in all', async () => {
      const { raw, server } = await attacked({ maxBodyBytes: 300_000 });
      const big = [0xe0, 0xa7, 0x12]; // 300,000
      for (let id = 1; id <= 20; id++) raw.trySend(Uint8Array.from(named(id, 'echo', PARTIAL | RAW, ...big)));
      const refusals = await take(raw, 16);
      expect(refusals.every((frame) => Buffer.from(frame).toString().includes('ERR_VERBMQ_OVERLOADED'))).toBe(
        true,
      );
      expect(server.stats().running).toBe(4);
      // Those that are cancelled make room.
      for (let id = 1; id <= 4; id++) raw.trySend(Uint8Array.from([CANCEL, 0, id]));
      raw.trySend(Uint8Array.from(named(21, 'echo', PARTIAL | RAW, 2)));
      raw.trySend(Uint8Array.from([PIECE, 0, 21, 7, 8]));
      expect((await take(raw, 1)).map((frame) => [...frame])).toEqual([[RESULT, RAW, 21, 7, 8]]);
    });

    test('calls that never end are limited', async () => {
      const { raw, server } = await attacked({ maxConcurrentCallsPerConnection: 10 });
      for (let id = 1; id <= 50; id++) raw.trySend(Uint8Array.from(named(id, 'hang')));
      const refusals = await take(raw, 40);
      expect(refusals.every((frame) => Buffer.from(frame).toString().includes('ERR_VERBMQ_OVERLOADED'))).toBe(
        true,
      );
      expect(server.stats()).toMatchObject({ running: 10, refused: 40 });
    });
  });

  describe('a server that lies', () => {
    async function lying(): Promise<{
      near: Connection;
      api: ReturnType<typeof client<typeof service>>;
      raw: Connection;
    }> {
      const { client: near, server: raw } = await connectPair(setUp);
      return { near, api: client<typeof service>(near), raw };
    }
    const say = (raw: Connection, ...frame: number[]): void => void raw.trySend(Uint8Array.from(frame));

    test('as many methods as there may be, in as many frames as the server likes', async () => {
      const { api, raw, near } = await lying();
      for (const frame of manyMethods(4096)) say(raw, ...frame);
      say(raw, METHODS, 1, ...number(4096), ...text('msgpack')); // no more
      await until(() => near.stats().messagesReceived === 42);
      const call = (api as unknown as Record<string, () => Promise<unknown>>)['method 4095']?.();
      expect((await take(raw, 1)).map((frame) => [...frame])).toEqual([[CALL, 0, 1, ...number(4095)]]);
      say(raw, RESULT, 0, 1, 42);
      expect(await call).toBe(42);
    });

    test('answers that cannot be read fail their call alone', async () => {
      const { api, raw } = await lying();
      const calls = [1, 2, 3].map((n) => api.echo(n));
      await take(raw, 3);
      say(raw, RESULT, 0, 1, 0xdd, 0xff, 0xff, 0xff, 0xff);
      say(raw, RESULT, PARTIAL, 2, ...GIB2);
      say(raw, RESULT, 0, 3, 42);
      expect((await verbmqErrorOf(calls[0] as Promise<unknown>)).code).toBe('ERR_VERBMQ_DECODE');
      expect((await verbmqErrorOf(calls[1] as Promise<unknown>)).code).toBe('ERR_VERBMQ_MESSAGE_TOO_LARGE');
      expect(await calls[2]).toBe(42);
    });

    test('a second answer goes nowhere', async () => {
      const { near, api, raw } = await lying();
      const call = api.echo(1);
      await take(raw, 1);
      say(raw, RESULT, 0, 1, 1);
      say(raw, RESULT, 0, 1, 2);
      say(raw, ERROR, 0, 1, 0, 0, 0);
      expect(await call).toBe(1);
      await until(() => rpcStats(near).lateAnswers === 2);
      expect(near.state).toBe('open');
    });

    test('an error with a code of its own invention is one of the handler', async () => {
      const { api, raw } = await lying();
      const call = errorOf(api.echo(1));
      await take(raw, 1);
      say(raw, ERROR, 0, 1, ...text('ERR_VERBMQ_CONNECTION_LOST'), 0, ...text('boo'));
      expect(await call).toMatchObject({
        name: 'RemoteError',
        code: 'ERR_VERBMQ_CONNECTION_LOST',
        message: 'boo',
      });
    });

    test('frames that make no sense end the connection, and fail all calls', async () => {
      const nonsense = [
        [RESULT, 0, 7, 1],
        [ITEM_TO_CALLER, 0, 1, 1],
        [PIECE_TO_CALLER, 0, 1, 1],
        [0x99, 0, 1],
        [RESULT, METADATA, 1, 0xff],
        [ERROR, 0, 1, 100],
      ];
      for (const frame of nonsense) {
        const { api, raw, near } = await lying();
        const calls = [verbmqErrorOf(api.hang()), verbmqErrorOf(api.hang())];
        await take(raw, 2);
        say(raw, ...frame);
        for (const error of await Promise.all(calls)) {
          expect(error).toMatchObject({ code: 'ERR_VERBMQ_PROTOCOL', outcome: 'unknown' });
        }
        await near.closed;
      }
    });

    test('credit that nobody needs is ignored, items beyond the window are not', async () => {
      const { api, raw, near } = await lying();
      const stream = collect(api.endless.stream());
      const failed = verbmqErrorOf(stream);
      await take(raw, 1);
      say(raw, CREDIT_TO_CALLER, 0, 1, 5);
      api.endless.stream(); // nobody reads it
      for (let i = 0; i < 200 && near.state === 'open'; i++) {
        await raw
          .send(Buffer.concat([Uint8Array.from([ITEM_TO_CALLER, RAW, 2]), new Uint8Array(10_000)]))
          .catch(() => {});
        await turns(1);
      }
      expect((await failed).code).toBe('ERR_VERBMQ_PROTOCOL');
    });
  });
}
