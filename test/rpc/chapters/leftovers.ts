import { type CallContext, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { expectNothingMore, expectSame, inUse } from '../../support/leftovers.js';
import { type SetUp, scaled } from '../../support/set-up.js';
import { collect, errorOf, served, until } from '../support.js';

export function leftovers(setUp: SetUp): void {
  test('after 100,000 calls: no call, no listener, no timer, no handle, no memory', {
    timeout: 120_000,
  }, async () => {
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
    const before = inUse();
    await round(scaled(100_000));
    expect(rpcStats(near)).toEqual({ pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 });
    expect(rpcStats(far)).toEqual({ pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 });
    expectNothingMore(before, signal);
  });
}
