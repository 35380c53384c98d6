// Large messages that the application keeps lie in registered memory, each where it was read to, and come free in any order.
import type { Message } from '@verbmq/core';
import type { RdmaTransportStats } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { pattern, sameBytes } from '../support/messages.js';
import { randomFrom } from '../support/random.mjs';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const KIB = 1024;
const COUNT = 400;
/** At most so many are kept while more come. */
const KEPT = 16;

/** Of several sizes of buffers, so that they come from several slabs; every fifth is small, and is copied when it is kept. */
const lengthOf = (n: number): number => (n % 5 === 0 ? 100 : 5 * KIB + ((n * 7919) % (90 * KIB)));

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('kept messages over a device like %s', (personality) => {
    test.each([
      ['all of them stay where they are', 128 * 1024 * KIB],
      ['some are copied, since too many are kept', 512 * KIB],
    ])('are unchanged, whatever is released before them (%s)', async (_, largeMemoryBytes) => {
      resetForTest(device, personality);
      device.set('completion_jitter_us', 100);
      const pair = await simulatedPair(device, { largeMemoryBytes, receiveWindowBytes: 256 * KIB });
      const random = randomFrom(largeMemoryBytes);
      const kept: { n: number; message: Message }[] = [];
      const wrong: number[] = [];
      let received = 0;
      const check = ({ n, message }: { n: number; message: Message }): void => {
        if (!sameBytes(message.data, pattern(lengthOf(n), n))) wrong.push(n);
      };
      const releaseAny = (): void => {
        const [any] = kept.splice(Math.floor(random() * kept.length), 1);
        if (any === undefined) return;
        check(any);
        any.message.release();
      };
      pair.server.onMessage((message) => {
        kept.push({ n: received++, message: message.retain() });
        // Now none, now several, so that buffers of the same size come free before and after others.
        for (let releases = random() * 3; kept.length > KEPT || releases > 1.5; releases--) releaseAny();
      });
      let most = 0;
      for (let n = 0; n < COUNT; n++) {
        await pair.client.send(pattern(lengthOf(n), n));
        most = Math.max(most, (pair.serverTransport.stats() as RdmaTransportStats).largeMemoryInBytes);
      }
      await until(() => received === COUNT);
      expect(most).toBeGreaterThan(256 * KIB);
      while (kept.length > 3) releaseAny();
      // What is kept beyond the end of the connection is the application's alone.
      await expectNothingLeft(device, pair);
      kept.forEach(check);
      expect(wrong).toEqual([]);
      while (kept.length > 0) releaseAny();
    });
  });
});
