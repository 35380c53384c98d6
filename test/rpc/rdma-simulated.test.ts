import { simulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { rpc } from './index.js';

rpc('simulated RDMA (rxe)', simulatedRdmaSetUp(await simulatedDevice('rxe')));
