// Connections that end while others begin: the addon gives places away again, and each end must reach who had the place.
import { describe, test } from 'vitest';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';

const AT_A_TIME = 16;
const CONNECTIONS = 500;

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test('tells each connection of its end, whoever takes its place at once', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { receiveSlots: 8, sendSlots: 8 });
      let opened = 0;
      const lane = async (): Promise<void> => {
        while (opened++ < CONNECTIONS) {
          const connection = await pair.clientTransport.connect(pair.listener.url);
          await connection.close();
        }
      };
      await Promise.all(Array.from({ length: AT_A_TIME }, lane));
      await expectNothingLeft(device, pair);
    });
  });
});
