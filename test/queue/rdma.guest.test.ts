import { describe } from 'vitest';
import { MESSAGING_IN_FULL, ON_AUTO, ON_RDMA } from '../support/messaging-on-device.js';
import { queues } from './chapters.js';
import { hostileBrokers } from './hostile-brokers.js';
import { hostilePeers } from './hostile-peers.js';
import { killedPeers } from './killed-peers.js';
import { leftovers } from './leftovers.js';

queues(ON_RDMA.name, ON_RDMA.setUp);

if (MESSAGING_IN_FULL) {
  queues(ON_AUTO.name, ON_AUTO.setUp);
  for (const { name, setUp, ready } of [ON_RDMA, ON_AUTO]) {
    killedPeers(name, setUp, ready);
    describe(`nothing stays behind over ${name}`, () => leftovers(setUp));
  }
  describe(`over ${ON_RDMA.name}`, () => {
    hostilePeers(ON_RDMA.setUp);
    hostileBrokers(ON_RDMA.setUp);
  });
}
