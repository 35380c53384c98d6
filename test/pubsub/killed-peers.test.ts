import { autoOverTcpSetUp } from '../support/transports/auto.js';
import { tcpSetUp, unixSetUp } from '../support/transports/tcp.js';
import { killedPeers } from './killed-peers.js';

killedPeers('TCP', tcpSetUp());
killedPeers('Unix sockets', unixSetUp());
killedPeers('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
