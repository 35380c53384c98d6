// A layer that may have to send messages again leaves them in the slots that they were sent from: until it is told to go.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { expectBytes, pattern } from '../support/messages.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const HEADER = [1, -2, 3, 4] as const;
const HEADER_BYTES = 16;

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('on a device like %s', (personality) => {
    test('a message stays where it was sent from until the slots are used again, among others of all kinds', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { sendSlots: 8 });
      let arrived = 0;
      pair.server.onMessage(() => arrived++);
      /** What must be there, and where. */
      const kept = new Map<number, Uint8Array>();
      let vacated = 0;
      const memory = pair.client.keepSent((whose) => {
        expect(whose).toBe(memory);
        vacated++;
        kept.clear();
      });
      if (memory === undefined) throw new Error('nothing is kept');
      let sent = 0;
      while (sent < 500) {
        const data = pattern((sent * 37) % 900, sent);
        if (sent % 5 === 0) await pair.client.send(data);
        else if (sent % 7 === 0) {
          const lease = pair.client.allocate(data.length);
          lease.data.set(data);
          await pair.client.send(lease);
        } else if (sent % 11 === 0) {
          await pair.client.send(pattern(20_000, sent));
        } else {
          const at = pair.client.trySendBehindWords(...HEADER, data);
          if (at < 0) {
            await nextTurn();
            continue;
          }
          kept.set(at, data);
        }
        sent++;
        for (const [at, bytes] of kept) {
          expect([...new Int32Array(memory.slice(at, at + HEADER_BYTES).buffer)]).toEqual(HEADER);
          expectBytes(memory.subarray(at + HEADER_BYTES, at + HEADER_BYTES + bytes.length), bytes);
        }
      }
      await until(() => arrived === sent);
      // Not for each message, which would be the same as a copy of each.
      expect(vacated).toBeGreaterThan(10);
      expect(vacated).toBeLessThan(400);
      await expectNothingLeft(device, pair);
    });
  });

  test('a message that is longer than a slot is not kept', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { slotBytes: 256 });
    pair.client.keepSent(() => {});
    const arrived: number[] = [];
    pair.server.onMessage(({ data }) => arrived.push(data.length));
    expect(pair.client.trySendBehindWords(...HEADER, new Uint8Array(300))).toBe(-2);
    await until(() => arrived.length === 1);
    expect(arrived).toEqual([316]);
  });
});
