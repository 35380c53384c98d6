import { autoOverRdmaSetUp } from '../support/transports/auto.js';
import { rdmaAddresses } from '../support/transports/rdma.js';
import { type Chapter, conformance } from './index.js';

// Auto passes the whole suite on the simulated device, and RDMA on this one; test/auto/moving.guest.test.ts has what goes on across a move.
// Always run is what no move may disturb, the rest on demand: it takes three times as long as the suite on RDMA alone.
const ALWAYS: Chapter[] = ['order', 'aborting'];

conformance(
  `auto upon TCP and RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`,
  autoOverRdmaSetUp(rdmaAddresses()),
  process.env.VERBMQ_WHOLE_CONFORMANCE === undefined ? ALWAYS : undefined,
);
