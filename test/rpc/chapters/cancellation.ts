import { type CallContext, client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { turns } from '../../support/expectations.js';
import { take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { stretched } from '../../support/set-up.js';
import { CANCEL, DEADLINE, ERROR, named, PARTIAL, RAW } from '../frames.js';
import { collect, errorOf, fired, from, Gate, served, until, verbmqErrorOf } from '../support.js';

export function cancellation(setUp: SetUp): void {
  test('a deadline ends the call on both sides, and travels as what is left of it', async () => {
    const seen: (number | undefined)[] = [];
    const aborted = new Gate();
    const { api, near, far } = await served(setUp, {
      hang: async (_: undefined, { signal, remainingMs }: CallContext) => {
        seen.push(remainingMs);
        await fired(signal);
        seen.push((signal.reason as { code?: string }).code === undefined ? undefined : 1);
        aborted.open();
      },
      left: (_: undefined, call: CallContext) => call.remainingMs,
    });
    const timeoutMs = stretched(60);
    expect(await verbmqErrorOf(api.hang(undefined, { timeoutMs }))).toMatchObject({
      code: 'ERR_VERBMQ_RPC_DEADLINE',
      outcome: 'unknown',
      retryable: false,
    });
    await aborted.opened;
    expect(seen[0]).toBeGreaterThan(0);
    expect(seen[0]).toBeLessThanOrEqual(timeoutMs);
    expect(seen[1]).toBe(1);
    expect(await api.left()).toBe(undefined);
    expect(rpcStats(near).pendingCalls).toBe(0);
    await until(() => rpcStats(far).runningCalls === 0);
  });

  test('a deadline ends streams of both directions, and what they are made of', async () => {
    const ended: string[] = [];
    const { api, near, far } = await served(setUp, {
      async *endless(_: undefined, { signal }: CallContext) {
        signal.addEventListener('abort', () => ended.push('endless'));
        for (let n = 0; ; n++) yield n;
      },
      swallow: (source: AsyncIterable<number>) =>
        collect(source).catch((error) => void ended.push(`swallow ${error.code}`)),
    });
    async function* open(): AsyncGenerator<number> {
      try {
        for (let n = 0; ; n++) {
          await turns(1);
          yield n;
        }
      } finally {
        ended.push('source');
      }
    }
    const timeoutMs = stretched(60);
    const calls = [
      collect(api.endless.stream(undefined, { timeoutMs })),
      api.swallow(open(), { timeoutMs }),
    ].map((call) => verbmqErrorOf(call));
    for (const error of await Promise.all(calls))
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_RPC_DEADLINE', outcome: 'unknown' });
    await until(() => ended.length === 3);
    expect(ended.sort()[0]).toBe('endless');
    expect(ended[1]).toBe('source');
    expect(ended[2]).toMatch(/^swallow ERR_VERBMQ_(RPC_DEADLINE|CANCELLED)$/); // whichever clock was the first
    expect(rpcStats(near).pendingCalls).toBe(0);
    await until(() => rpcStats(far).runningCalls === 0);
  });

  test('a server ends a call whose caller is silent when its time is over', async () => {
    const { client: raw, server: far } = await connectPair(setUp);
    const remaining: number[] = [];
    const reasons: unknown[] = [];
    const server = serve(far, {
      hang: async (_: unknown, call: CallContext) => {
        remaining.push(call.remainingMs as number);
        await turns(20);
        remaining.push(call.remainingMs as number);
        await fired(call.signal);
        reasons.push(call.signal.reason);
        remaining.push(call.remainingMs as number);
      },
    });
    const timeoutMs = Math.min(stretched(60), 127); // one byte in the frame
    await take(raw, 1); // the names of the methods
    const answer = take(raw, 2);
    const start = performance.now();
    // With a body, and with one that is promised and never comes: then no handler runs.
    await raw.send(Uint8Array.from(named(1, 'hang', DEADLINE, timeoutMs)));
    await raw.send(Uint8Array.from(named(2, 'hang', DEADLINE | PARTIAL | RAW, timeoutMs, 100)));
    for (const frame of await answer) {
      expect(frame[0]).toBe(ERROR);
      expect(Buffer.from(frame).toString()).toContain('ERR_VERBMQ_RPC_DEADLINE');
    }
    expect(performance.now() - start).toBeGreaterThanOrEqual(timeoutMs - 1);
    await until(() => remaining.length === 3);
    expect(reasons).toEqual([expect.objectContaining({ code: 'ERR_VERBMQ_RPC_DEADLINE' })]);
    expect(remaining[0]).toBeLessThanOrEqual(timeoutMs);
    expect(remaining[1]).toBeLessThan(remaining[0] as number);
    expect(remaining[2]).toBe(0);
    expect(server.stats()).toMatchObject({ running: 0, failed: 2 });
  });

  test('a caller ends a call whose server is silent when its time is over', async () => {
    const { client: near, server: raw } = await connectPair(setUp);
    const api = client<{
      hang(): Promise<void>;
      many(): AsyncIterable<number>;
      all(source: AsyncIterable<number>): Promise<void>;
    }>(near);
    const timeoutMs = stretched(60);
    const start = performance.now();
    const calls = [
      api.hang(undefined, { timeoutMs }),
      collect(api.many.stream(undefined, { timeoutMs })),
      api.all(from([1]), { timeoutMs }),
    ].map((call) => verbmqErrorOf(call));
    for (const error of await Promise.all(calls))
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_RPC_DEADLINE', outcome: 'unknown' });
    expect(performance.now() - start).toBeGreaterThanOrEqual(timeoutMs - 1);
    expect(rpcStats(near).pendingCalls).toBe(0);
    // And says so: besides the calls themselves, a grant, and the stream that one of them sends.
    const frames = (await take(raw, 9)).map((frame) => [frame[0], frame[2]]);
    for (const id of [1, 2, 3]) expect(frames).toContainEqual([CANCEL, id]);
  });

  test("the client's own timeout holds for calls that set none", async () => {
    const { api } = await served(
      setUp,
      {
        hang: () => new Promise<void>(() => {}),
        left: (_: undefined, call: CallContext) => call.remainingMs,
      },
      { client: { timeoutMs: stretched(50) } },
    );
    expect((await verbmqErrorOf(api.hang())).code).toBe('ERR_VERBMQ_RPC_DEADLINE');
    expect(await api.left(undefined, { timeoutMs: 60_000 })).toBeGreaterThan(30_000);
  });

  test('many deadlines at once, most of which are met', async () => {
    const { api } = await served(setUp, {
      maybe: (hang: boolean) => (hang ? new Promise<string>(() => {}) : 'met'),
    });
    const calls = Array.from({ length: 300 }, (_, i) =>
      api
        .maybe(i % 3 === 0, { timeoutMs: i % 3 === 0 ? stretched(20 + i / 10) : 60_000 })
        .catch((error) => error.code),
    );
    const outcomes = await Promise.all(calls);
    expect(
      outcomes.every((outcome, i) => outcome === (i % 3 === 0 ? 'ERR_VERBMQ_RPC_DEADLINE' : 'met')),
    ).toBe(true);
  });

  test("the caller's signal reaches the handler", async () => {
    const started = new Gate();
    const aborted = new Gate();
    const { api, far } = await served(setUp, {
      hang: async (_: undefined, { signal }: CallContext) => {
        started.open();
        await fired(signal);
        aborted.open();
      },
    });
    const controller = new AbortController();
    const call = api.hang(undefined, { signal: controller.signal });
    await started.opened;
    controller.abort('changed my mind');
    expect(await verbmqErrorOf(call)).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: 'unknown' });
    await aborted.opened;
    await until(() => rpcStats(far).runningCalls === 0);
  });

  test('a signal that has fired already keeps the call from leaving', async () => {
    let called = 0;
    const { api } = await served(setUp, { count: () => ++called });
    const error = await verbmqErrorOf(api.count(undefined, { signal: AbortSignal.abort('before') }));
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: undefined, cause: 'before' });
    expect(await api.count()).toBe(1);
  });

  test('one signal cancels all calls that share it', async () => {
    const { api, near } = await served(setUp, {
      hang: () => new Promise<void>(() => {}),
      async *endless() {
        for (;;) yield 1;
      },
      async all(source: AsyncIterable<number>) {
        await collect(source);
      },
    });
    const controller = new AbortController();
    const { signal } = controller;
    async function* open(): AsyncGenerator<number> {
      yield 1;
      await new Promise(() => {});
    }
    const calls = [
      ...Array.from({ length: 50 }, () => api.hang(undefined, { signal })),
      collect(api.endless.stream(undefined, { signal })),
      api.all(open(), { signal }),
    ].map((call) => verbmqErrorOf(call));
    await api.hang(undefined, { timeoutMs: 1 }).catch(() => {});
    controller.abort();
    for (const error of await Promise.all(calls)) expect(error.code).toBe('ERR_VERBMQ_CANCELLED');
    expect(rpcStats(near).pendingCalls).toBe(0);
  });

  test('an answer that comes too late goes nowhere, and the next call is not touched', async () => {
    const gate = new Gate();
    const { api, near } = await served(setUp, {
      late: async (_: undefined) => {
        await gate.opened;
        return 'late';
      },
      one: () => 1,
    });
    const controller = new AbortController();
    const call = verbmqErrorOf(api.late(undefined, { signal: controller.signal }));
    await api.one();
    controller.abort();
    gate.open(); // answer and cancellation cross
    expect((await call).code).toBe('ERR_VERBMQ_CANCELLED');
    expect(await api.one()).toBe(1);
    expect(rpcStats(near).pendingCalls).toBe(0);
  });

  test('the signal of a call that was answered does not fire', async () => {
    const signals: AbortSignal[] = [];
    let context: CallContext | undefined;
    const { api } = await served(setUp, {
      keep: async (_: undefined, call: CallContext) => {
        signals.push(call.signal);
        context = call;
      },
    });
    await api.keep();
    await api.keep();
    expect(signals.some((signal) => signal.aborted)).toBe(false);
    expect(context?.signal.aborted).toBe(false);
  });

  test('times and signals that are none are mistakes of the caller', async () => {
    const { api } = await served(setUp, {
      one: (_?: unknown) => 1,
      all: (source: AsyncIterable<number>) => collect(source),
    });
    expect(await errorOf(api.one(undefined, { timeoutMs: -1 }))).toBeInstanceOf(RangeError);
    expect(await errorOf(api.one(undefined, { timeoutMs: '1' as never }))).toBeInstanceOf(TypeError);
    expect(await errorOf(api.one(undefined, { signal: {} as never }))).toBeInstanceOf(TypeError);
    expect(await api.all(from([1]))).toEqual([1]);
  });
}
