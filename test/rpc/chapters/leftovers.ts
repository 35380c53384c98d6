import { getEventListeners } from 'node:events';
import { type CallContext, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { type SetUp, scaled } from '../../support/set-up.js';
import { collect, served, until } from '../support.js';

export function leftovers(setUp: SetUp): void {
  test('after 100,000 calls: no call, no listener, no timer, no memory', { timeout: 120_000 }, async () => {
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
    });
    const controller = new AbortController();
    const { signal } = controller;
    const options = { signal, timeoutMs: 60_000 };
    const round = async (calls: number): Promise<void> => {
      let next = 0;
      const worker = async (): Promise<void> => {
        while (next < calls) {
          const n = next++;
          if (n % 4 === 0) expect(await api.now(n, options)).toBe(n);
          else if (n % 4 === 1) expect(await api.later(n, options)).toBe(n);
          else if (n % 100 === 2) expect(await collect(api.two.stream(n, options))).toEqual([n, n + 1]);
          else if (n % 4 === 2) await expect(api.fail(undefined, options)).rejects.toThrow('failed');
          else await api.now(n, options);
        }
      };
      await Promise.all(Array.from({ length: 32 }, worker));
      await until(() => rpcStats(far).runningCalls === 0);
    };
    await round(scaled(10_000));
    global.gc?.();
    const before = process.memoryUsage().heapUsed;
    const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    await round(scaled(100_000));
    expect(rpcStats(near)).toEqual({ pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 });
    expect(rpcStats(far)).toEqual({ pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length).toBeLessThanOrEqual(
      timers,
    );
    if (global.gc !== undefined) {
      global.gc();
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(4 * 1024 * 1024);
    }
  });
}
