import { autoOverTcpSetUp } from '../support/transports/auto.js';
import { tlsSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

conformance('auto upon TLS', autoOverTcpSetUp(tlsSetUp()));
