// On demand: in the guest the suite takes some minutes, and the parts of auto that see the device are tested by `auto/moving.guest`.
import { test } from 'vitest';
import { autoOverRdmaSetUp } from '../support/transports/auto.js';
import { rdmaAddresses } from '../support/transports/rdma.js';
import { conformance } from './index.js';

const name = `auto upon TCP and RDMA (${process.env.VERBMQ_GUEST_DRIVER ?? 'device'})`;

if (process.env.VERBMQ_WHOLE_CONFORMANCE === undefined) {
  test(`the ${name} transport`, (context) => context.skip('on demand: set VERBMQ_WHOLE_CONFORMANCE'));
} else conformance(name, autoOverRdmaSetUp(rdmaAddresses()));
