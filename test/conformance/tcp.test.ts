import { tcpSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

conformance('tcp', tcpSetUp());
