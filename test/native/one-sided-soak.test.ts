// One-sided operations of every kind and size at once, beside messages, over a device that is never punctual.
import type { Connection, RemoteMemory } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { sameBytes } from '../support/messages.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';

const AREAS = 12;
const OPERATIONS = 60;
/** Around the lengths at which the way changes: inline, pieces, borrowed memory. */
const LENGTHS = [1, 8, 200, 256, 257, 4096, 65_536, 262_144, 262_145, 524_287, 524_288, 600_000];
const AREA_BYTES = 600_000;

/** A small generator of its own, so that a seed repeats a run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** Reads and writes in one area of the peer's memory, which nobody else touches, and knows what must be there. */
async function work(remote: RemoteMemory, area: number, seed: number): Promise<void> {
  const random = randomFrom(seed * 1000 + area + 1);
  const known = new Uint8Array(AREA_BYTES);
  for (let n = 0; n < OPERATIONS; n++) {
    const length = LENGTHS[random(LENGTHS.length)]!;
    const offset = random(AREA_BYTES - length + 1);
    if (random(2) === 0) {
      known.subarray(offset, offset + length).fill(random(256));
      await remote.write(area * AREA_BYTES + offset, known.subarray(offset, offset + length));
    } else {
      const bytes = await remote.read(area * AREA_BYTES + offset, length);
      if (!sameBytes(bytes, known.subarray(offset, offset + length))) {
        throw new Error(`operation ${n} in area ${area} read something else`);
      }
    }
  }
}

async function chat(from: Connection, to: Connection, count: number): Promise<void> {
  let received = 0;
  const all = new Promise<void>((resolve) => {
    to.onMessage(() => {
      if (++received === count) resolve();
    });
  });
  for (let n = 0; n < count; n++) await from.send(new Uint8Array(n % 2 === 0 ? 100 : 20_000));
  await all;
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)(
    'one-sided operations on a device like %s',
    (personality) => {
      test.each([1, 2])(
        'every byte right, every addition counted once, nothing left (seed %i)',
        async (seed) => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device, {
            polling: (['event', 'adaptive', 'busy'] as const)[seed % 3]!,
            peerTimeoutMs: 10_000,
          });
          device.set('jitter_seed', seed);
          device.set('completion_jitter_us', 300);
          device.set('cq_event_delay_us', 100);
          device.set('missing_send_slots', 10);
          const counter = new BigUint64Array(1);
          const access = { read: true, write: true, atomic: true };
          const areas = await pair.server.expose(AREAS * AREA_BYTES, access);
          const counted = await pair.server.expose(new Uint8Array(counter.buffer), access);
          const [remote, word] = [areas, counted].map(({ descriptor }) => pair.client.attach(descriptor));
          const additions = Array.from({ length: 300 }, () => word!.fetchAdd(0, 1n));
          await Promise.all([
            ...Array.from({ length: AREAS }, (_, area) => work(remote!, area, seed)),
            chat(pair.client, pair.server, 200),
            chat(pair.server, pair.client, 200),
          ]);
          expect(new Set(await Promise.all(additions)).size).toBe(300);
          expect(counter[0]).toBe(300n);
          expect(device.count('rnr-answers')).toBe(0);
          expect(device.count('cq-overruns')).toBe(0);
          await expectNothingLeft(device, pair);
        },
      );
    },
  );
});
