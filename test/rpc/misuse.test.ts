// Longer than 300 lines: it is one list of what applications may do wrong, and what each part of a call does about it.
import type { Codec } from '@verbmq/core/codec';
import { type CallContext, client, rpcChannels, rpcStats, serve } from '@verbmq/core/rpc';
import { describe, expect, onTestFinished, test } from 'vitest';
import { turns } from '../support/expectations.js';
import { json } from '../support/json-codec.js';
import { take } from '../support/messages.js';
import { abortAfterTest, connectPair, listenForTest, transportForTest } from '../support/pair.js';
import { recordedLog } from '../support/recorded-log.js';
import { memorySetUp } from '../support/transports/memory.js';
import { uncaughtExceptions } from '../support/uncaught.js';
import { CALL, DEADLINE, ERROR, METADATA, NAMED, number, text } from './frames.js';
import { collect, errorOf, fired, from, Gate, served, until, verbmqErrorOf } from './support.js';

const setUp = memorySetUp();

describe('a codec that throws what it should not', () => {
  const failing = (details: unknown) => () => {
    throw Object.assign(new Error('sold out'), { code: 'SOLD_OUT', details });
  };

  test('at the details of an error leaves out the details, and the caller is answered', async () => {
    const { api, server } = await served(
      setUp,
      { fail: failing({ left: 0n }), later: async () => failing({ left: 0n })() },
      { serve: { codec: json }, client: { codec: json } },
    );
    for (const call of [api.fail(), api.later()])
      expect(await errorOf(call)).toMatchObject({
        code: 'SOLD_OUT',
        message: 'sold out',
        details: undefined,
      });
    expect(server.stats()).toMatchObject({ failed: 2, running: 0 });
  });

  test('at details and metadata leaves out both', async () => {
    const { api } = await served(
      setUp,
      {
        fail(_: undefined, call: CallContext) {
          call.answerMetadata = { a: 1 } as never;
          failing({ left: 0n })();
        },
      },
      { serve: { codec: json }, client: { codec: json } },
    );
    expect(await errorOf(api.fail())).toMatchObject({ code: 'SOLD_OUT', details: undefined });
  });

  test('at what a peer has sent fails that call alone', async () => {
    const { client: raw, server: far } = await connectPair(setUp);
    const server = serve(far, { echo: (body: unknown) => body }, { codec: json });
    await take(raw, 1); // the names of the methods
    const frame = (id: number, body: string): Uint8Array =>
      Uint8Array.from([CALL, NAMED, id, ...text('echo'), ...text('json'), ...Buffer.from(body)]);
    await raw.send(frame(1, '{no json'));
    await raw.send(frame(2, '{}'));
    const [refusal, answer] = await take(raw, 2);
    expect([...(refusal as Uint8Array).subarray(0, 3)]).toEqual([ERROR, 0, 1]);
    expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_DECODE');
    expect(Buffer.from(answer as Uint8Array).toString()).toContain('{}');
    expect(server.stats()).toMatchObject({ handled: 1, failed: 1, running: 0 });
  });

  test('at an answer fails that call, with an error of the contract', async () => {
    const decode = (): never => {
      throw 'a text';
    };
    const { api } = await served(
      setUp,
      { one: () => 1, many: () => from([1]) },
      { serve: { codec: json }, client: { codec: { ...json, decode } as Codec } },
    );
    for (const error of await Promise.all([api.one(), collect(api.many.stream())].map(verbmqErrorOf)))
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_DECODE', outcome: 'unknown' });
  });
});

describe('an error that cannot be shown', () => {
  const weird: [string, unknown][] = [
    ['a stack that is none', Object.assign(new Error('shown'), { stack: 5 })],
    [
      'a stack that throws',
      Object.defineProperty(new Error('x'), 'stack', {
        get() {
          throw new Error('a trap');
        },
      }),
    ],
    ['a message that is none', Object.assign(new Error('x'), { message: Symbol('m') })],
    ['nothing', null],
    ['an object without a text', Object.create(null)],
  ];
  test.each(weird)('%s: the caller is answered all the same', async (_, thrown) => {
    const { api, server, near } = await served(
      setUp,
      {
        fail: () => {
          throw thrown;
        },
      },
      { serve: { exposeStacks: true } },
    );
    expect(await errorOf(api.fail())).toMatchObject({
      code: 'ERR_VERBMQ_RPC_HANDLER_FAILED',
      message: expect.stringMatching(/./),
    });
    expect(near.state).toBe('open');
    expect(server.stats()).toMatchObject({ failed: 1, running: 0 });
  });
});

describe('memory that goes away while it is sent', () => {
  const LENGTH = 8 * 1024 * 1024;

  test('of an answer: the caller is told', async () => {
    const body = new Uint8Array(LENGTH);
    const { api, far } = await served(setUp, { large: () => body, one: () => 1 });
    const error = errorOf(api.large());
    await until(() => rpcStats(far).runningCalls === 1);
    structuredClone(body.buffer, { transfer: [body.buffer] });
    expect((await error).message).toMatch(/transferred/);
    expect(await api.one()).toBe(1);
    expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
  });

  test('of a request: the server does not wait for the rest', async () => {
    const body = new Uint8Array(LENGTH);
    const { api, near, far } = await served(setUp, { length: (bytes: Uint8Array) => bytes.byteLength });
    const error = errorOf(api.length(body));
    await until(() => rpcStats(far).runningCalls === 1);
    structuredClone(body.buffer, { transfer: [body.buffer] });
    expect(await error).toBeInstanceOf(TypeError);
    await until(() => rpcStats(far).runningCalls === 0);
    expect(await api.length(new Uint8Array(5))).toBe(5);
    expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
  });
});

describe('a connection on which nothing more may wait', () => {
  /** A caller that has learnt the methods, and reads nothing more. */
  async function unread() {
    const service = { large: () => new Uint8Array(60_000), one: () => 1 };
    const sides = await served(setUp, service, { pair: { server: { maxQueuedBytes: 230_000 } } });
    await sides.api.one();
    sides.near.pause();
    return sides;
  }

  test('answers its callers with errors, as long as there is room for those', async () => {
    const { api, near, far } = await unread();
    const calls = Array.from({ length: 60 }, () =>
      api.large().then(
        () => 'answered',
        (error) => error.code,
      ),
    );
    await turns(20);
    near.resume();
    const outcomes = await Promise.all(calls);
    expect(new Set(outcomes)).toEqual(new Set(['answered', 'ERR_VERBMQ_SEND_QUEUE_FULL']));
    expect(await api.one()).toBe(1);
    expect(far.state).toBe('open');
  });

  test('ends where there is not even room for an error', async () => {
    const { api, near, far } = await unread();
    const calls = Array.from({ length: 10_000 }, () => errorOf(api.large()));
    await far.closed;
    near.resume();
    await Promise.allSettled(calls);
    expect((await far.closed).error?.message).toContain('not read');
  });
});

describe('mistakes of the program', () => {
  test('times of drain and close that are none', async () => {
    const { server, far } = await served(setUp, {});
    const listener = await listenForTest(setUp);
    server.serve(listener);
    for (const time of [Number.NaN, -1, Number.POSITIVE_INFINITY, 2 ** 40]) {
      await expect(server.drain(time)).rejects.toBeInstanceOf(RangeError);
      await expect(server.close(time)).rejects.toBeInstanceOf(RangeError);
    }
    await expect(server.drain('5' as never)).rejects.toBeInstanceOf(TypeError);
    expect(far.state).toBe('open');
    abortAfterTest(await transportForTest(setUp).connect(listener.url)); // which nobody has closed
  });

  test('counters that are asked for of a connection whose messages go elsewhere', async () => {
    const { client: near, server: far } = await connectPair(setUp);
    const none = { pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 };
    expect(rpcStats(near)).toEqual(none);
    await far.send(Uint8Array.of(7));
    const messages = near.messages();
    expect((await messages.next()).value?.data).toEqual(Uint8Array.of(7));
    expect(rpcStats(near)).toEqual(none);
    await messages.return?.();
    expect(() => rpcStats({} as never)).toThrow(TypeError);
  });

  test('a client that is logged, or made a text of, calls nothing', async () => {
    const called: string[] = [];
    const interceptors = [
      ({ method }: { method: string }) => {
        called.push(method);
        return Promise.resolve();
      },
    ];
    const { api } = await served(setUp, { one: () => 1 }, { client: { interceptors } });
    expect(JSON.stringify({ api })).toBe('{"api":{}}');
    expect(() => `${api}`).toThrow(TypeError);
    expect(() => Number(api)).toThrow(TypeError);
    expect(await api).toBe(api);
    expect(called).toEqual([]);
    for (const name of ['then', 'toJSON', 'toString', 'valueOf'])
      expect(() => serve({} as never, { [name]: () => 1 })).toThrow(name);
  });

  test('an onMetadata that is no function', async () => {
    let called = 0;
    const { api } = await served(setUp, { count: (_?: unknown) => ++called });
    expect(await errorOf(api.count(1, { onMetadata: 5 as never }))).toBeInstanceOf(TypeError);
    expect(await api.count()).toBe(1);
  });

  test('an interceptor that throws at once fails the call like any other', async () => {
    const { api } = await served(
      setUp,
      { one: () => 1 },
      {
        client: {
          interceptors: [
            () => {
              throw new Error('not today');
            },
          ],
        },
      },
    );
    expect((await errorOf(api.one())).message).toBe('not today');
  });

  test('a handler that fails with undefined has failed, for its signal and for who traces', async () => {
    const gate = new Gate();
    let late: AbortSignal | undefined;
    const { api } = await served(setUp, {
      async fail(_: undefined, call: CallContext) {
        void gate.opened.then(() => {
          late = call.signal;
        });
        throw undefined;
      },
    });
    const failures: string[] = [];
    const subscribers = { error: ({ method }: { method: string }) => void failures.push(method) };
    rpcChannels.server.subscribe(subscribers as never);
    onTestFinished(() => void rpcChannels.server.unsubscribe(subscribers as never));
    await errorOf(api.fail());
    gate.open();
    await until(() => late !== undefined);
    expect(late?.aborted).toBe(true);
    await until(() => failures.length > 0);
    expect(failures).toEqual(['fail']);
  });
});

test('an answer that a connection takes no more, because its peer closes it, is nobody’s failure', async () => {
  const { lines, logger } = recordedLog();
  const gate = new Gate();
  const signals: AbortSignal[] = [];
  const { api, server, near, far } = await served(
    setUp,
    {
      large: () => new Uint8Array(60_000),
      async one(_: undefined, { signal }: CallContext) {
        signals.push(signal);
        await gate.opened;
        return 1;
      },
      async *many(_: undefined, { signal }: CallContext) {
        signals.push(signal);
        await gate.opened;
        yield 1;
      },
    },
    { serve: { logger } },
  );
  await api.large();
  near.pause();
  const waiting = [errorOf(api.one()), errorOf(api.many.stream().next())];
  const answers = Promise.all(Array.from({ length: 60 }, () => api.large()));
  await until(() => signals.length === 2 && rpcStats(far).backlogBytes > 1_000_000);
  const closed = near.close();
  await until(() => far.state === 'closing'); // and remains so, since not all that it has sent is read
  gate.open();
  await until(() => signals.every(({ aborted }) => aborted));
  near.resume();
  await answers;
  expect((await closed).graceful).toBe(true);
  for (const error of waiting) expect((await error).code).toBe('ERR_VERBMQ_CLOSED');
  expect(server.stats()).toMatchObject({ failed: 0, running: 0 });
  expect(lines.filter(({ level }) => level === 'warn')).toEqual([]);
});

test('a deadline that no client can set leaves the handler a time that it can pass on', async () => {
  const { client: raw, server: far } = await connectPair(setUp);
  const { client: next, server: behind } = await connectPair(setUp);
  serve(behind, { one: () => 1 });
  const api = client<{ one(): number }>(next);
  serve(far, {
    pass: (_: unknown, { remainingMs }: CallContext) => api.one(undefined, { timeoutMs: remainingMs }),
  });
  await take(raw, 1); // the names of the methods
  await raw.send(
    Uint8Array.from([CALL, NAMED | DEADLINE, 1, ...text('pass'), ...text('msgpack'), ...number(2 ** 53 - 1)]),
  );
  const [answer] = await take(raw, 1);
  expect([...(answer as Uint8Array).subarray(2)]).toEqual([1, 1]);
});

describe('connections that cannot be served', () => {
  test('one that has ended before the listener is served is nobody’s error', async () => {
    const uncaught = uncaughtExceptions();
    onTestFinished(() => uncaught.stop());
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const gone = await transport.connect(listener.url);
    gone.abort('changed my mind');
    await turns();
    const service = { one: () => 1 };
    serve(listener, service);
    const api = client<typeof service>(abortAfterTest(await transport.connect(listener.url)));
    expect(await api.one()).toBe(1);
    await turns();
    expect(uncaught.errors).toEqual([]);
  });

  test.each([1, 20, 48, 100, 255])(
    'one whose messages have %s bytes at most ends, and no other',
    async (maxMessageBytes) => {
      const uncaught = uncaughtExceptions();
      onTestFinished(() => uncaught.stop());
      const listener = await listenForTest(setUp);
      const echo = { echo: (body: unknown) => body };
      const service = { ...echo, ['a long name '.repeat(10)]: () => 1 };
      const server = serve(listener, service);
      const short = abortAfterTest(await transportForTest(setUp, { maxMessageBytes }).connect(listener.url));
      expect((await short.closed).error?.message).toContain('maxMessageBytes');
      expect(() => client(short)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_UNSUPPORTED' }));
      const api = client<typeof echo>(abortAfterTest(await transportForTest(setUp).connect(listener.url)));
      expect(await api.echo(1)).toBe(1);
      await turns();
      expect(uncaught.errors).toEqual([]);
      expect(server.stats().connections).toBe(1);
    },
  );

  test('names that are too long for its messages are not told of, and the methods are there all the same', async () => {
    const long = 'n'.repeat(250);
    const service = { first: () => 1, [long as 'long']: () => 2, last: () => 3 };
    const { api } = await served(setUp, service, { pair: { both: { maxMessageBytes: 256 } } });
    expect([await api.first(), await api.last()]).toEqual([1, 3]);
    expect((await verbmqErrorOf(api[long as 'long']())).code).toBe('ERR_VERBMQ_MESSAGE_TOO_LARGE');
    expect(await api.first()).toBe(1);
  });

  test('errors fit into its messages, with their whole codes', async () => {
    const { api } = await served(
      setUp,
      {
        fail: () => {
          throw new Error('e'.repeat(300));
        },
        *wrong() {
          yield 1;
        },
        length: (body: Uint8Array) => body.byteLength,
      },
      { pair: { both: { maxMessageBytes: 256 } }, serve: { maxBodyBytes: 1000 } },
    );
    const wide = api as unknown as Record<string, (body?: unknown) => Promise<unknown>>;
    // Names that fit into a call, and not into what such an error says elsewhere.
    for (const length of [150, 195, 200, 220, 235])
      expect(await errorOf(wide['n'.repeat(length)]?.() as Promise<unknown>)).toMatchObject({
        code: 'ERR_VERBMQ_RPC_UNKNOWN_METHOD',
      });
    expect(await errorOf(api.fail())).toMatchObject({ code: 'ERR_VERBMQ_RPC_HANDLER_FAILED' });
    expect(await errorOf(api.length(new Uint8Array(2000)))).toMatchObject({
      code: 'ERR_VERBMQ_MESSAGE_TOO_LARGE',
    });
    expect(await api.length(new Uint8Array(1000))).toBe(1000);
  });
});

test('a signal that fires while its own call is encoded cancels that', async () => {
  const { api, near } = await served(setUp, {
    hang: (_: unknown, { signal }: CallContext) => fired(signal),
    async *hangs(_: unknown, { signal }: CallContext) {
      await fired(signal);
      yield 1;
    },
  });
  class Value {
    readonly controller = new AbortController();
    toJSON(): string {
      this.controller.abort('meanwhile');
      return 'within';
    }
  }
  const [value, other] = [new Value(), new Value()];
  for (const call of [
    api.hang({ value }, { signal: value.controller.signal }),
    collect(api.hangs.stream({ other }, { signal: other.controller.signal })),
  ])
    expect(await verbmqErrorOf(call)).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: 'unknown' });
  expect(rpcStats(near).pendingCalls).toBe(0);
});

describe('an item that is refused', () => {
  const deep = (): unknown => {
    let value: unknown = 1;
    for (let n = 0; n < 100; n++) value = [value];
    return value;
  };
  test.each([
    ['nests too deep', deep, 'ERR_VERBMQ_DECODE'],
    ['is too long', () => new Uint8Array(100_001), 'ERR_VERBMQ_MESSAGE_TOO_LARGE'],
  ])('because it %s: what its handler has done meanwhile nobody knows', async (_, item, code) => {
    let done = 0;
    const { api } = await served(
      setUp,
      {
        async each(source: AsyncIterable<unknown>) {
          for await (const _ of source) done++;
        },
        one: (_: unknown) => 1,
      },
      { serve: { maxBodyBytes: 100_000 } },
    );
    const error = await verbmqErrorOf(api.each(from([1, 2, item()])));
    expect(error).toMatchObject({ code, outcome: 'unknown', retryable: false });
    expect(done).toBe(2);
    // Of a call that is refused itself the handler has not run.
    expect(await verbmqErrorOf(api.one(item()))).toMatchObject({ code, outcome: undefined });
  });
});

test('metadata without end are refused where they are too large, not at their end', async () => {
  const { client: raw, server: far } = await connectPair(setUp);
  serve(far, { one: () => 1 });
  await take(raw, 1); // the names of the methods
  const pairs = 100_000; // of nothing, and the last is cut off
  const nothing = new Array<number>(2 * pairs - 1).fill(0);
  await raw.send(Uint8Array.from([CALL, METADATA, 1, 0, ...number(pairs), ...nothing]));
  expect((await far.closed).error?.message).toContain('metadata are too large');
});

test('the trace of a call ends with its connection, also when the handler has ended that', async () => {
  const { api } = await served(setUp, {
    end: (_: undefined, call: CallContext) => {
      call.connection.abort('enough');
    },
  });
  const events: string[] = [];
  const subscribers = {
    error: () => void events.push('error'),
    asyncEnd: () => void events.push('asyncEnd'),
  };
  rpcChannels.server.subscribe(subscribers as never);
  onTestFinished(() => void rpcChannels.server.unsubscribe(subscribers as never));
  await errorOf(api.end());
  await until(() => events.length === 2);
  expect(events).toEqual(['error', 'asyncEnd']);
});
