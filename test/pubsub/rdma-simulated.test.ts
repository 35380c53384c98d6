import { simulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { topics } from './chapters.js';

topics('simulated RDMA (rxe)', simulatedRdmaSetUp(await simulatedDevice('rxe')));
