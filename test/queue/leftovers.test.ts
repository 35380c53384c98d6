import { describe } from 'vitest';
import { inFull } from '../../scripts/test/scope.mjs';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverMemorySetUp, autoOverTcpSetUp } from '../support/transports/auto.js';
import { memorySetUp } from '../support/transports/memory.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { leftovers } from './leftovers.js';

/** What is kept of jobs shows over memory, and what a transport keeps of 100,000 calls in test/rpc: the rest tells that both go together. */
const ELSEWHERE = inFull ? 100_000 : 20_000;

describe.each([
  ['memory', memorySetUp(), 100_000],
  ['TCP', tcpSetUp(), ELSEWHERE],
  ['auto on its fast path', autoOverMemorySetUp('both'), ELSEWHERE],
  ['auto upon TCP', autoOverTcpSetUp(tcpSetUp()), ELSEWHERE],
] as const)('nothing stays behind over %s', (_, setUp, count) => leftovers(setUp, count));

await onSimulatedDevice('rxe', (device) => {
  describe('nothing stays behind over simulated RDMA (rxe)', () =>
    leftovers(simulatedRdmaSetUp(device), ELSEWHERE));
});
