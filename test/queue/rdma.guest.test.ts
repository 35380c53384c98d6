import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { queues } from './chapters.js';

queues(`RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`, rdmaSetUp(rdmaAddresses()));
