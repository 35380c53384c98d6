import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { rpc } from './index.js';

await onSimulatedDevice('rxe', (device) =>
  rpc('auto upon TCP with simulated RDMA (rxe)', autoOverSimulatedRdmaSetUp(device)),
);
