import { RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import type { SetUp } from '../set-up.js';
import type { SimulatedDevice } from '../simulated-device.js';
import { rdmaSetUp } from './rdma.js';

/** RDMA on the simulated device, which lives in one process. */
export function simulatedRdmaSetUp({ libraries }: SimulatedDevice, own: RdmaTransportOptions = {}): SetUp {
  return {
    ...rdmaSetUp({ listen: '127.0.0.1', source: undefined }),
    crossesProcesses: false,
    createTransport: (options) => new RdmaTransport({ ...own, ...options, libraries }),
  };
}
