import { autoOverRdmaSetUp } from '../support/transports/auto.js';
import { rdmaAddresses } from '../support/transports/rdma.js';
import { conformance } from './index.js';

conformance(
  `auto upon TCP and RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`,
  autoOverRdmaSetUp(rdmaAddresses()),
);
