import { autoOverRdmaSetUp } from '../support/transports/auto.js';
import { rdmaAddresses } from '../support/transports/rdma.js';
import { type Chapter, conformance } from './index.js';

// Auto passes the whole suite on the simulated device, and RDMA on this one. Always run is what moves to the device while it is under way, the
// rest on demand: it takes three times as long as the suite on RDMA alone.
const ALWAYS: Chapter[] = ['order', 'backpressure', 'one-sided memory', 'closing in order', 'aborting'];

conformance(
  `auto upon TCP and RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`,
  autoOverRdmaSetUp(rdmaAddresses()),
  process.env.VERBMQ_WHOLE_CONFORMANCE === undefined ? ALWAYS : undefined,
);
