// All of the suite again where the accepting side's connections share their receive slots.
import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { conformance } from './index.js';

await onSimulatedDevice('mlx', (device) =>
  conformance(
    'simulated RDMA (mlx) with shared receive slots',
    simulatedRdmaSetUp(device, { sharedReceiveQueue: { slots: 4096, maxConnections: 128 } }),
  ),
);
