import { tcpSetUp } from '../support/transports/tcp.js';
import { rpc } from './index.js';

rpc('TCP', tcpSetUp());
