import { expect, test } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { tlsSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

await onSimulatedDevice('rxe', (device) => {
  conformance('auto upon TLS and simulated RDMA', autoOverSimulatedRdmaSetUp(device, tlsSetUp()));

  test('all of this took the device, and not TLS alone', () => {
    expect(device.count('sends')).toBeGreaterThan(1000);
  });
});
