// Thousands of connections that come and go: nothing may stay, in the device or in the process.
import { describe, expect, test } from 'vitest';
import { numbered } from '../support/messages.js';
import { scaled } from '../support/set-up.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const AT_ONCE = 8;
const ROUNDS = scaled(250);

await onSimulatedDevice('rxe', (device) => {
  test.each<Personality>(['rxe', 'siw'])(
    `${ROUNDS * AT_ONCE} connections over a device like %s leave nothing`,
    async (personality) => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { receiveSlots: 8, sendSlots: 8 });
      pair.listener.onConnection((connection) => {
        connection.onMessage((message) => {
          connection.send(message.data).catch(() => {}); // it may have ended
        });
      });
      const before = JSON.stringify(device.leftOver());
      const one = async (n: number): Promise<void> => {
        const connection = await pair.clientTransport.connect(pair.listener.url);
        const answer = new Promise((resolve) => connection.onMessage(resolve));
        await connection.send(numbered(n));
        await answer;
        if (n % 2 === 0) connection.abort('every other one');
        else await connection.close();
        await connection.closed;
      };
      for (let round = 0; round < ROUNDS; round++) {
        await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => one(round * AT_ONCE + n)));
      }
      expect(pair.listener.stats()).toEqual({ accepted: 1 + ROUNDS * AT_ONCE, failed: 0 });
      await until(() => JSON.stringify(device.leftOver()) === before);
      expect(pair.clientTransport.stats().connections).toBe(1);
      expect(pair.serverTransport.stats().connections).toBe(1);
      await expectNothingLeft(device, pair);
    },
  );

  // The device is opened with the first connection over it, and given back with the last.
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test('is held by nothing when nothing is connected over it', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      await Promise.all([pair.client.close(), pair.server.closed]);
      const { 'cm-channel': channels, 'cm-id': listener, ...verbs } = device.leftOver();
      expect({ channels, listener, verbs }).toEqual({ channels: 2, listener: 1, verbs: {} });
      await expectNothingLeft(device, pair);
    });
  });
});
