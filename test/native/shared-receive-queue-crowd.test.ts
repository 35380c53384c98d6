// Shared receive slots where thousands of connections want more of them than there are.
import { expect, test } from 'vitest';
import { scaled } from '../support/set-up.js';
import {
  ALL_PERSONALITIES,
  onSimulatedDevice,
  type Personality,
  resetForTest,
} from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';
import { crowdedTraffic } from './crowd.js';

const CONNECTIONS = scaled(2000);
const SIZE = { connections: CONNECTIONS, spareSlots: CONNECTIONS / 2, up: 48, down: 8 };

await onSimulatedDevice('rxe', (device) => {
  test.each<Personality>(ALL_PERSONALITIES)(
    `serve ${CONNECTIONS} connections at once over a device like %s: no message finds none, and no memory is added`,
    { timeout: 240_000 },
    async (personality) => {
      resetForTest(device, personality);
      device.set('max_pd', 2 * SIZE.connections + 100);
      const pinned: number[] = [];
      await crowdedTraffic(simulatedSetUp(device), SIZE, () => {
        pinned.push(device.live('pinned-bytes'));
        expect(device.live('srq')).toBe(1);
      });
      expect(new Set(pinned).size).toBe(1);
      expect(device.count('rnr-answers')).toBe(0);
      expect(device.count('cq-overruns')).toBe(0);
      await until(() => Object.keys(device.leftOver()).length === 0);
      expect(device.count('busy')).toBe(0);
    },
  );
});
