import { RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import type { SetUp } from '../set-up.js';
import type { SimulatedDevice } from '../simulated-device.js';
import { rdmaSetUp } from './rdma.js';

const PREPARATION = new URL('../simulated-device-of-peer.mjs', import.meta.url).href;

/** RDMA on the simulated device, which lives in one process. */
export function simulatedRdmaSetUp(device: SimulatedDevice, own: RdmaTransportOptions = {}): SetUp {
  const { libraries, control, personality } = device;
  const atomics = personality === 'siw' ? 'emulated' : 'native';
  const setUp = rdmaSetUp({ listen: '127.0.0.1', source: undefined, atomics }, own);
  return {
    ...setUp,
    crossesProcesses: false,
    peer: {
      ...setUp.peer,
      options: { ...setUp.peer.options, libraries },
      preparation: {
        module: PREPARATION,
        argument: { library: libraries.ibverbs, control, personality },
      },
    },
    createTransport: (options) => new RdmaTransport({ ...own, ...options, libraries }),
  };
}
