import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { conformance } from './index.js';

await onSimulatedDevice('rxe', (device) => conformance('simulated RDMA (rxe)', simulatedRdmaSetUp(device)));
