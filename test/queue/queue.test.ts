import { autoOverMemorySetUp, autoOverTcpSetUp, autoThatMovesLateSetUp } from '../support/transports/auto.js';
import { memorySetUp } from '../support/transports/memory.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { queues } from './chapters.js';

queues('memory', memorySetUp());
queues('TCP', tcpSetUp());
queues('auto on its fast path', autoOverMemorySetUp('both'));
queues('auto that moves late', autoThatMovesLateSetUp());
queues('auto', autoOverMemorySetUp('none'));
queues('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
