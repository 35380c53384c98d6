import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { queues } from './chapters.js';

await onSimulatedDevice('rxe', (device) =>
  queues('auto upon TCP with simulated RDMA (rxe)', autoOverSimulatedRdmaSetUp(device)),
);
