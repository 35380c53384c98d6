import { RdmaTransport } from '@verbmq/native';
import type { SetUp } from '../set-up.js';
import type { SimulatedDevice } from '../simulated-device.js';

/** RDMA on the simulated device, which lives in one process. */
export function simulatedRdmaSetUp({ libraries }: SimulatedDevice): SetUp {
  return {
    kind: 'rdma',
    capabilities: { oneSided: 'none', atomics: 'none', largeMessages: 'none', zeroCopySend: 'native' },
    boundaries: [64, 1024, 4096 - 16],
    /** The receive slots of one side and the send slots of the other, and the high-water mark. */
    unreadBytes: 1.5 * 1024 * 1024,
    crossesProcesses: false,
    peer: { module: '@verbmq/native', name: 'RdmaTransport', options: { libraries } },
    createTransport: (options) => new RdmaTransport({ ...options, libraries }),
    listenAddress: () => ({ host: '127.0.0.1', port: 0 }),
    deadAddress: () => ({ host: '127.0.0.1', port: 1 }),
  };
}
