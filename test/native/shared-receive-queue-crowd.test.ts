// Shared receive slots where thousands of connections want more of them than there are.
import { expect, test } from 'vitest';
import { onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';
import { crowdedTraffic } from './crowd.js';

const SIZE = { connections: 2000, spareSlots: 1000, up: 48, down: 8 };

await onSimulatedDevice('rxe', (device) => {
  test.each<Personality>(['rxe', 'siw', 'mlx'])(
    'serve 2,000 connections at once over a device like %s: no message finds none, and no memory is added',
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
