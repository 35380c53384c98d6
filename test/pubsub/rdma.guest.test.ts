import { messagingOnDevice } from '../support/messaging-on-device.js';
import { topics } from './chapters.js';
import { hostileBrokers } from './hostile-brokers.js';
import { hostilePeers } from './hostile-peers.js';
import { killedPeers } from './killed-peers.js';
import { leftovers } from './leftovers.js';

messagingOnDevice({ chapters: topics, killedPeers, leftovers, hostilePeers, hostileBrokers });
