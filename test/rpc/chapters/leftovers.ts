import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type CallContext, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { type SetUp, scaled } from '../../support/set-up.js';
import { collect, errorOf, served, until } from '../support.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What vitest remembers of every expectation would outweigh what is looked for here. */
function expectSame(actual: unknown, expected: unknown): void {
  if (actual !== expected) expect(actual).toBe(expected);
}

/** What is in use when nothing is left that could be collected. */
function memory(): NodeJS.MemoryUsage {
  // What a first collection finds out of use may let go of buffers, which the second one finds.
  for (let i = 0; i < 2; i++) collectGarbage();
  return process.memoryUsage();
}

/** What holds this process, timers too, by its kind. */
function activeHandles(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of process.getActiveResourcesInfo()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

export function leftovers(setUp: SetUp): void {
  test('after 100,000 calls: no call, no listener, no timer, no handle, no memory', {
    timeout: 120_000,
  }, async () => {
    const watched = new WeakSet<AbortSignal>();
    const { api, near, far } = await served(setUp, {
      now: (n: number) => n,
      later: async (n: number, call: CallContext) => (call.remainingMs === undefined ? -1 : n),
      fail: async () => {
        throw new Error('failed');
      },
      async *two(n: number) {
        yield n;
        yield n + 1;
      },
      // Listens to the signal of its call, as handlers do that pass it on.
      listen: async (n: number, call: CallContext) => {
        call.signal.addEventListener('abort', () => {});
        watched.add(call.signal);
        return n;
      },
      bytes: (body: Uint8Array) => body,
    });
    const large = new Uint8Array(100_000);
    const controller = new AbortController();
    const { signal } = controller;
    const options = { signal, timeoutMs: 60_000 };
    const round = async (calls: number): Promise<void> => {
      let next = 0;
      const worker = async (): Promise<void> => {
        while (next < calls) {
          const n = next++;
          if (n % 500 === 3) expectSame((await api.bytes(large, options)).byteLength, large.byteLength);
          else if (n % 20 === 3) expectSame(await api.listen(n, options), n);
          else if (n % 4 === 0) expectSame(await api.now(n, options), n);
          else if (n % 4 === 1) expectSame(await api.later(n, options), n);
          else if (n % 100 === 2)
            expectSame((await collect(api.two.stream(n, options))).join(), `${n},${n + 1}`);
          else if (n % 4 === 2) expectSame((await errorOf(api.fail(undefined, options))).message, 'failed');
          else await api.now(n, options);
        }
      };
      await Promise.all(Array.from({ length: 32 }, worker));
      await until(() => rpcStats(far).runningCalls === 0);
    };
    await round(scaled(10_000));
    const before = memory();
    const handles = activeHandles();
    await round(scaled(100_000));
    expect(rpcStats(near)).toEqual({ pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 });
    expect(rpcStats(far)).toEqual({ pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    const more = Object.entries(activeHandles()).filter(([name, count]) => count > (handles[name] ?? 0));
    expect(more).toEqual([]);
    const after = memory();
    for (const what of ['heapUsed', 'external', 'arrayBuffers'] as const)
      expect(after[what] - before[what], what).toBeLessThan(4 * 1024 * 1024);
  });
}
