import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { topics } from './chapters.js';

topics(`RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`, rdmaSetUp(rdmaAddresses()));
