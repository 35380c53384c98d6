import { describe, expect, test } from 'vitest';
import type { SetUp } from '../support/set-up.js';
import { onEachTransport } from '../support/transports/each.js';
import { stuck } from './chapters/withdrawn.js';

/** What becomes of a request while it waits to leave. */
function waits(name: string, setUp: SetUp): void {
  describe(`a request that waits to leave, over ${name},`, () => {
    test('says what is left of its time by then', async () => {
      const { api, far, calls } = await stuck(setUp);
      const timeoutMs = 200_000;
      const waitMs = 50;
      const left = api.left(undefined, { timeoutMs });
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, waitMs);
      far.resume();
      expect(await left).toBeLessThanOrEqual(timeoutMs - waitMs);
      expect(await left).toBeGreaterThan(timeoutMs / 2);
      await Promise.all(calls);
    });
  });
}

await onEachTransport(waits);
