import { type CallContext, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { turns } from '../../support/expectations.js';
import { type SetUp, stretched } from '../../support/set-up.js';
import { collect, type Served, served, verbmqErrorOf } from '../support.js';

const BODY = new Uint8Array(60_000);

/** So much waits and does not leave until the server reads. */
const HELD_BACK = 300_000;

const service = (seen: number[]) => ({
  one: () => 1,
  left: (_: undefined, { remainingMs }: CallContext) => remainingMs,
  take: (body: Uint8Array) => void seen.push(body.byteLength),
  async takeAll(source: AsyncIterable<Uint8Array>) {
    for (const item of await collect(source)) seen.push(item.byteLength);
  },
  async *echo(body: Uint8Array) {
    seen.push(body.byteLength);
    yield body;
  },
});

export interface Stuck extends Served<ReturnType<typeof service>> {
  readonly seen: number[];
  /** Those that wait or have left already. */
  readonly calls: Promise<void>[];
}

/**
 * A server that does not read, for which requests wait. More of them wait for a moment where the path of the connection changes, or
 * is slow: so `HELD_BACK` is what is beyond all that lies there at most.
 */
export async function stuck(setUp: SetUp): Promise<Stuck> {
  const seen: number[] = [];
  const all = await served(setUp, service(seen));
  await all.api.one();
  all.far.pause();
  const calls: Promise<void>[] = [];
  while (calls.length * BODY.byteLength < setUp.unreadBytes + HELD_BACK) {
    calls.push(all.api.take(BODY));
    await turns(1);
  }
  expect(rpcStats(all.near).backlogBytes).toBeGreaterThanOrEqual(HELD_BACK);
  return { ...all, seen, calls };
}

async function* items(): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < 3; n++) yield new Uint8Array(7);
}

export function withdrawn(setUp: SetUp): void {
  test('nothing of them stays, and none of them runs: by a signal', async () => {
    const { api, near, far, seen, calls } = await stuck(setUp);
    const before = rpcStats(near).backlogBytes;
    const controller = new AbortController();
    const { signal } = controller;
    const cancelled = [
      api.take(BODY.subarray(1), { signal }),
      api.take(new Uint8Array(300_000), { signal }), // in pieces
      api.takeAll(items(), { signal }),
      collect(api.echo.stream(BODY.subarray(1), { signal })),
    ].map((call) => verbmqErrorOf(call));
    await turns();
    expect(rpcStats(near).backlogBytes).toBeGreaterThan(HELD_BACK + 400_000);
    controller.abort();
    for (const error of await Promise.all(cancelled))
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: undefined });
    await turns();
    expect(rpcStats(near).backlogBytes).toBeLessThanOrEqual(before);
    expect(rpcStats(near).pendingCalls).toBe(calls.length);
    far.resume();
    await Promise.all(calls);
    expect(await api.one()).toBe(1);
    expect(new Set(seen)).toEqual(new Set([BODY.byteLength]));
    expect(near.state).toBe('open');
  });

  test('nothing of them stays, and none of them runs: by a deadline', async () => {
    const { api, near, far, seen, calls } = await stuck(setUp);
    const before = rpcStats(near).backlogBytes;
    const timeoutMs = stretched(20);
    const late = Array.from({ length: 20 }, (_, n) =>
      verbmqErrorOf(api.take(BODY.subarray(n + 1), { timeoutMs })),
    );
    for (const error of await Promise.all(late))
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_RPC_DEADLINE', outcome: undefined });
    await turns();
    expect(rpcStats(near).backlogBytes).toBeLessThanOrEqual(before);
    far.resume();
    await Promise.all(calls);
    expect(await api.one()).toBe(1);
    expect(new Set(seen)).toEqual(new Set([BODY.byteLength]));
  });

  test('those that have left are cancelled there, though something of theirs waits here', async () => {
    const { api, near, far } = await served(setUp, service([]));
    await api.one();
    let given = 0;
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) {
        given++;
        yield BODY;
      }
    }
    const controller = new AbortController();
    const { signal } = controller;
    const upload = verbmqErrorOf(api.takeAll(endless(), { signal }));
    await turns();
    far.pause();
    const calls: Promise<void>[] = [];
    while (rpcStats(near).backlogBytes < 300_000) {
      calls.push(api.take(BODY));
      await turns(1);
    }
    expect(given).toBeGreaterThan(0);
    controller.abort();
    expect(await upload).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: 'unknown' });
    far.resume();
    await Promise.all(calls);
    expect(await api.one()).toBe(1);
    expect(rpcStats(far).runningCalls).toBe(0);
  });
}
