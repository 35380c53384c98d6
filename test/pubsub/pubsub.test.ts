import { autoOverMemorySetUp, autoOverTcpSetUp, autoThatMovesLateSetUp } from '../support/transports/auto.js';
import { memorySetUp } from '../support/transports/memory.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { topics } from './chapters.js';

topics('memory', memorySetUp());
topics('TCP', tcpSetUp());
topics('auto on its fast path', autoOverMemorySetUp('both'));
topics('auto that moves late', autoThatMovesLateSetUp());
topics('auto', autoOverMemorySetUp('none'));
topics('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
