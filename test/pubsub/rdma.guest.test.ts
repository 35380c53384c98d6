import { describe } from 'vitest';
import { asAuto, onFast } from '../support/auto-pair.js';
import { MESSAGING_IN_FULL } from '../support/messaging-in-full.js';
import { autoOverRdmaSetUp } from '../support/transports/auto.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { topics } from './chapters.js';
import { hostileBrokers } from './hostile-brokers.js';
import { hostilePeers } from './hostile-peers.js';
import { killedPeers } from './killed-peers.js';
import { leftovers } from './leftovers.js';

const driver = process.env.VERBMQ_GUEST_DRIVER ?? 'device';
const name = `RDMA (${driver})`;
const setUp = rdmaSetUp(rdmaAddresses());

topics(name, setUp);

if (MESSAGING_IN_FULL) {
  killedPeers(name, setUp);
  describe(`over ${name}`, () => {
    hostilePeers(setUp);
    hostileBrokers(setUp);
  });
  describe(`nothing stays behind over ${name}`, () => leftovers(setUp));

  const onAuto = `auto upon TCP with RDMA (${driver})`;
  const autoSetUp = autoOverRdmaSetUp(rdmaAddresses());
  topics(onAuto, autoSetUp);
  killedPeers(onAuto, autoSetUp, (connection) => onFast(asAuto(connection)));
  describe(`nothing stays behind over ${onAuto}`, () => leftovers(autoSetUp));
}
