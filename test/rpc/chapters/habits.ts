import { type CallContext, client, serve } from '@verbmq/core/rpc';
import pino from 'pino';
import { expect, test } from 'vitest';
import { json } from '../../support/json-codec.js';
import { connectPair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { collect, errorOf, fired, from, served, until, verbmqErrorOf } from '../support.js';

/** What users of Node.js expect of whatever they build on. */
export function habits(setUp: SetUp): void {
  test('a codec of another kind', async () => {
    const options = { codec: json };
    const { api } = await served(
      setUp,
      {
        echo: (body: unknown) => body,
        async *count(to: number) {
          for (let n = 1; n <= to; n++) yield { n };
        },
        collect: (source: AsyncIterable<unknown>) => collect(source),
        fail: () => {
          throw Object.assign(new Error('failed'), { code: 'FAILED', details: { why: ['ü'] } });
        },
      },
      { client: options, serve: options },
    );
    for (const value of [null, 'ü', [1, { two: 2 }], 'x'.repeat(300_000)]) {
      expect(await api.echo(value)).toEqual(value);
    }
    expect(await api.echo(Uint8Array.of(1, 2))).toEqual(Uint8Array.of(1, 2));
    const items = [];
    for await (const item of api.count.stream(3)) items.push(item);
    expect(items).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(await api.collect(from([{ a: 1 }, Uint8Array.of(1), 'ü', { a: 2 }]))).toEqual([
      { a: 1 },
      { 0: 1 }, // an answer is one body, in which JSON has no bytes
      'ü',
      { a: 2 },
    ]);
    expect(await errorOf(api.fail())).toMatchObject({ code: 'FAILED', details: { why: ['ü'] } });
  });

  test('codecs that differ are an error of each call, and nothing has run', async () => {
    for (const [client, serve] of [
      [{ codec: json }, {}],
      [{}, { codec: json }],
    ]) {
      let ran = 0;
      const service = {
        add: ({ a, b }: { a: number; b: number }) => {
          ran++;
          return a + b;
        },
        async *count() {
          ran++;
          yield 1;
        },
      };
      const { api, server, near } = await served(setUp, service, {
        client: client ?? {},
        serve: serve ?? {},
      });
      // The first calls leave before the peer has told its codec.
      const calls = [api.add({ a: 1, b: 2 }), collect(api.count.stream())];
      for (const call of calls) {
        const error = await verbmqErrorOf(call);
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_DECODE', reason: 'codec', outcome: undefined });
        expect(error.message).toMatch(/codec "(json|msgpack)", the peer "(json|msgpack)"/);
      }
      await until(() => near.stats().messagesReceived > 2);
      expect((await verbmqErrorOf(api.add({ a: 1, b: 2 }))).reason).toBe('codec');
      expect((await verbmqErrorOf(collect(api.count.stream()))).reason).toBe('codec');
      expect(ran).toBe(0);
      expect(server.stats().running).toBe(0);
      expect(near.state).toBe('open');
    }
  });

  test('disposing of a stream ends its call, disposing of a server ends what it serves', async () => {
    const { client: near, server: far } = await connectPair(setUp);
    let ended: Promise<void> | undefined;
    const service = {
      async *endless(_: undefined, { signal }: CallContext) {
        ended = fired(signal);
        for (let n = 0; ; n++) yield n;
      },
    };
    {
      await using server = serve(far, service);
      {
        await using stream = client<typeof service>(near).endless.stream();
        expect(await stream.next()).toEqual({ done: false, value: 0 });
      }
      await ended;
      expect(server.stats().connections).toBe(1);
    }
    expect(await near.closed).toMatchObject({ graceful: true });
    expect(far.state).toBe('closed');
  });

  test('a pino logger is told of handlers that fail, as its child', async () => {
    const lines: Record<string, unknown>[] = [];
    const logger = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) });
    const { api } = await served(
      setUp,
      {
        fail: () => {
          throw new Error('out of tea');
        },
      },
      { serve: { logger } },
    );
    expect((await errorOf(api.fail())).message).toBe('out of tea');
    expect(lines).toEqual([
      expect.objectContaining({
        part: 'rpc',
        method: 'fail',
        msg: 'a handler failed',
        err: expect.objectContaining({ message: 'out of tea' }),
      }),
    ]);
  });
}
