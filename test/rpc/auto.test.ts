import { inFull } from '../../scripts/test/scope.mjs';
import { autoOverMemorySetUp, autoOverTcpSetUp, autoThatMovesLateSetUp } from '../support/transports/auto.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { rpc } from './index.js';

rpc('auto that moves late', autoThatMovesLateSetUp());
rpc('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
// Calls see no difference between these and the last one, and auto on its fast path where that is a simulated device.
if (inFull) {
  rpc('auto on its fast path', autoOverMemorySetUp('both'));
  rpc('auto without a fast path', autoOverMemorySetUp('none'));
}
