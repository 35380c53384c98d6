import type { SetUp } from '../set-up.js';
import { onSimulatedDevice } from '../simulated-device.js';
import { autoOverMemorySetUp, autoOverSimulatedRdmaSetUp, autoOverTcpSetUp } from './auto.js';
import { memorySetUp } from './memory.js';
import { simulatedRdmaSetUp } from './rdma-simulated.js';
import { tcpSetUp } from './tcp.js';

/** Declares tests on one transport of each kind, and on auto upon them. To be awaited at the end of a test file. */
export async function onEachTransport(declare: (name: string, setUp: SetUp) => void): Promise<void> {
  declare('memory', memorySetUp());
  declare('TCP', tcpSetUp());
  declare('auto on its fast path', autoOverMemorySetUp('both'));
  declare('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
  await onSimulatedDevice('rxe', (device) => {
    declare('simulated RDMA (rxe)', simulatedRdmaSetUp(device));
    declare('auto upon TCP with simulated RDMA (rxe)', autoOverSimulatedRdmaSetUp(device));
  });
}
