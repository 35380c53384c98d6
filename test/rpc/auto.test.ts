import { autoOverMemorySetUp, autoOverTcpSetUp, autoThatMovesLateSetUp } from '../support/transports/auto.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { rpc } from './index.js';

rpc('auto on its fast path', autoOverMemorySetUp('both'));
rpc('auto that moves late', autoThatMovesLateSetUp());
rpc('auto', autoOverMemorySetUp('none'));
rpc('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
