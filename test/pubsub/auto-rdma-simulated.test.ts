import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { topics } from './chapters.js';

await onSimulatedDevice('rxe', (device) =>
  topics('auto upon TCP with simulated RDMA (rxe)', autoOverSimulatedRdmaSetUp(device)),
);
