import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { conformance } from './index.js';

conformance(`RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`, rdmaSetUp(rdmaAddresses()));
