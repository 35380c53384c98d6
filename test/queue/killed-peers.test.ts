import { inFull } from '../../scripts/test/scope.mjs';
import { autoOverTcpSetUp } from '../support/transports/auto.js';
import { tcpSetUp, unixSetUp } from '../support/transports/tcp.js';
import { killedPeers } from './killed-peers.js';

killedPeers('TCP', tcpSetUp());
killedPeers('auto upon TCP', autoOverTcpSetUp(tcpSetUp()));
// That a Unix socket tells of a death as TCP does is in the conformance suite.
if (inFull) killedPeers('Unix sockets', unixSetUp());
