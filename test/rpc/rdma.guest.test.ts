import { describe } from 'vitest';
import { asAuto, onFast } from '../support/auto-pair.js';
import { MESSAGING_IN_FULL } from '../support/messaging-in-full.js';
import { autoOverRdmaSetUp } from '../support/transports/auto.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { hostilePeers } from './hostile-peers.js';
import { inPlace } from './in-place.js';
import { rpc } from './index.js';
import { killedPeers } from './killed-peers.js';

const driver = process.env.VERBMQ_GUEST_DRIVER ?? 'device';
const name = `RDMA (${driver})`;
const setUp = rdmaSetUp(rdmaAddresses());

rpc(name, setUp);
killedPeers(name, setUp);
describe(`bodies over ${name}`, () => inPlace(setUp));

if (MESSAGING_IN_FULL) {
  describe(`peers over ${name}`, () => hostilePeers(setUp));

  const onAuto = `auto upon TCP with RDMA (${driver})`;
  const autoSetUp = autoOverRdmaSetUp(rdmaAddresses());
  rpc(onAuto, autoSetUp);
  killedPeers(onAuto, autoSetUp, (connection) => onFast(asAuto(connection)));
}
