import { expect, it } from 'vitest';
import { counterExample, tableExample } from './support/one-sided-examples.js';
import { rdmaAddresses } from './support/transports/rdma.js';

const url = `rdma://${rdmaAddresses().listen}:0`;

it('the table is read while its owner is blocked', async () => {
  expect(await tableExample(url)).toBeGreaterThan(20);
});

it('the counter example runs over RDMA, as over TCP', () => counterExample(url));
