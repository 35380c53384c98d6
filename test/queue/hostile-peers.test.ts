import { describe } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { autoOverMemorySetUp } from '../support/transports/auto.js';
import { memorySetUp } from '../support/transports/memory.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { hostileBrokers } from './hostile-brokers.js';
import { hostilePeers } from './hostile-peers.js';

describe.each([
  ['memory', memorySetUp()],
  ['TCP', tcpSetUp()],
  ['auto on its fast path', autoOverMemorySetUp('both')],
] as const)('over %s', (_, setUp) => {
  hostilePeers(setUp);
  hostileBrokers(setUp);
});

await onSimulatedDevice('rxe', (device) => {
  describe('over simulated RDMA (rxe)', () => {
    hostilePeers(simulatedSetUp(device));
    hostileBrokers(simulatedSetUp(device));
  });
});
