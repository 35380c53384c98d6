import { unixSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

conformance('unix', unixSetUp());
