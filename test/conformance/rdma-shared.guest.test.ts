// The suite where the accepting side's connections share their receive slots, on a real device. What sharing changes is always run, the rest
// on demand: it takes as long as the whole suite.
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { type Chapter, conformance } from './index.js';

const ALWAYS: Chapter[] = ['backpressure', 'aborting'];

conformance(
  `RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'}) with shared receive slots`,
  rdmaSetUp(rdmaAddresses(), { sharedReceiveQueue: { slots: 4096, maxConnections: 128 } }),
  process.env.VERBMQ_WHOLE_CONFORMANCE === undefined ? ALWAYS : undefined,
);
