import { tcpSetUp, unixSetUp } from '../support/transports/tcp.js';
import { killedPeers } from './killed-peers.js';

killedPeers('TCP', tcpSetUp());
killedPeers('Unix sockets', unixSetUp());
