import { tlsSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

conformance('tls', tlsSetUp());
