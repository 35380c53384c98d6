import { autoOverTcpSetUp } from '../support/transports/auto.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

conformance('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
