import { describe, test } from 'vitest';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { addresses } from './addresses.js';

const v6 = process.env.VERBMQ_RDMA_ADDRESS6;
const v6TakesV4 = process.env.VERBMQ_GUEST_DRIVER !== 'siw';

describe('addresses of a real device', () => {
  if (v6 === undefined)
    test.skip('all of it (skipped: VERBMQ_RDMA_ADDRESS6 names no IPv6 address of the device)', () => {});
  else addresses({ v4: rdmaAddresses().listen, v6, v6TakesV4 }, () => rdmaSetUp(rdmaAddresses()));
});
