import { describe } from 'vitest';
import { MESSAGING_IN_FULL, ON_AUTO, ON_RDMA } from '../support/messaging-on-device.js';
import { hostilePeers } from './hostile-peers.js';
import { inPlace } from './in-place.js';
import { rpc } from './index.js';
import { killedPeers } from './killed-peers.js';

const { name, setUp } = ON_RDMA;

rpc(name, setUp);
killedPeers(name, setUp);
describe(`bodies over ${name}`, () => inPlace(setUp));

if (MESSAGING_IN_FULL) {
  describe(`peers over ${name}`, () => hostilePeers(setUp));
  rpc(ON_AUTO.name, ON_AUTO.setUp);
  killedPeers(ON_AUTO.name, ON_AUTO.setUp, ON_AUTO.ready);
}
