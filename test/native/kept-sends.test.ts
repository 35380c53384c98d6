// A layer that may have to send messages again leaves them in the slots that they were sent from: until it is told to go.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { KEPT, NOT_KEPT } from '@verbmq/core/transport-kit';
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
    test('messages stay where they were sent from until the slots are used again, or others are sent', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { sendSlots: 8 });
      let arrived = 0;
      pair.server.onMessage(() => arrived++);
      /** What must still be there, oldest first. */
      let kept: Uint8Array[] = [];
      let takenBack = 0;
      pair.client.keepSent((messages) => {
        takenBack++;
        expect(messages.count).toBe(kept.length);
        for (const [index, data] of kept.entries()) {
          const message = messages.at(index);
          expect([...new Int32Array(message.slice(0, HEADER_BYTES).buffer)]).toEqual(HEADER);
          expectBytes(message.subarray(HEADER_BYTES), data);
        }
        kept = [];
      });
      let sent = 0;
      while (sent < 500) {
        const data = pattern((sent * 37) % 900, sent);
        if (sent % 23 === 0) pair.client.giveBackSent();
        if (sent % 29 === 0) await pair.client.send(data);
        else if (sent % 31 === 0) {
          const lease = pair.client.allocate(data.length);
          lease.data.set(data);
          await pair.client.send(lease);
        } else if (sent % 37 === 0) {
          await pair.client.send(pattern(20_000, sent));
        } else if (sent % 41 === 0) {
          const room = pair.client.reserve();
          room?.bytes.set(data);
          if (room === undefined || !pair.client.trySendReserved(room, data.length)) {
            if (room !== undefined) pair.client.unreserve(room);
            await nextTurn();
            continue;
          }
        } else if (pair.client.trySendBehindWords(...HEADER, data) === KEPT) kept.push(data);
        else {
          await nextTurn();
          continue;
        }
        sent++;
      }
      pair.client.giveBackSent();
      expect(kept).toEqual([]);
      await until(() => arrived === sent);
      // Not for each message, which would be the same as a copy of each.
      expect(takenBack).toBeGreaterThan(10);
      expect(takenBack).toBeLessThan(250);
      await expectNothingLeft(device, pair);
    });
  });

  test('a message that is longer than a slot is not kept', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { slotBytes: 256 });
    pair.client.keepSent(() => {});
    const arrived: number[] = [];
    pair.server.onMessage(({ data }) => arrived.push(data.length));
    expect(pair.client.trySendBehindWords(...HEADER, new Uint8Array(300))).toBe(NOT_KEPT);
    await until(() => arrived.length === 1);
    expect(arrived).toEqual([316]);
  });
});
