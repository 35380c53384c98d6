import { describe } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverMemorySetUp, autoOverTcpSetUp } from '../support/transports/auto.js';
import { memorySetUp } from '../support/transports/memory.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { leftovers } from './leftovers.js';

describe.each([
  ['memory', memorySetUp()],
  ['TCP', tcpSetUp()],
  ['auto on its fast path', autoOverMemorySetUp('both')],
  ['auto upon TCP', autoOverTcpSetUp(tcpSetUp())],
] as const)('nothing stays behind over %s', (_, setUp) => leftovers(setUp));

await onSimulatedDevice('rxe', (device) => {
  describe('nothing stays behind over simulated RDMA (rxe)', () => leftovers(simulatedRdmaSetUp(device)));
});
