import { expect, test } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { conformance } from './index.js';

await onSimulatedDevice('rxe', (device) => {
  conformance('auto upon TCP and simulated RDMA', autoOverSimulatedRdmaSetUp(device));

  test('all of this took the device, and not TCP alone', () => {
    expect(device.count('sends')).toBeGreaterThan(1000);
  });
});
