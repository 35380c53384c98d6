import { simulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { conformance } from './index.js';

conformance('simulated RDMA (mlx)', simulatedRdmaSetUp(await simulatedDevice('mlx')));
