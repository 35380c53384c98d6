import { simulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { queues } from './chapters.js';

queues('simulated RDMA (rxe)', simulatedRdmaSetUp(await simulatedDevice('rxe')));
