import { memorySetUp } from '../support/transports/memory.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { queues } from './chapters.js';

queues('memory', memorySetUp());
queues('TCP', tcpSetUp());
