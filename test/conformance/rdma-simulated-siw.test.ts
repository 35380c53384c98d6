import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { conformance } from './index.js';

await onSimulatedDevice('siw', (device) => conformance('simulated RDMA (siw)', simulatedRdmaSetUp(device)));
