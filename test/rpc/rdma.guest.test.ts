import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { rpc } from './index.js';
import { killedPeers } from './killed-peers.js';

const name = `RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`;
const setUp = rdmaSetUp(rdmaAddresses());

rpc(name, setUp);
killedPeers(name, setUp);
