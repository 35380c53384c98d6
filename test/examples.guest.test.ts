import { expect, it } from 'vitest';
import { startExample, startService } from './support/example.js';
import { MESSAGING_IN_FULL } from './support/messaging-on-device.js';
import { orderExample } from './support/order-example.js';
import { rdmaAddresses } from './support/transports/rdma.js';

const { listen } = rdmaAddresses();
const url = `rdma://${listen}:0`;

it('the echo example runs over RDMA, as over TCP', async () => {
  const { url: announced } = await startService('echo-service', url);
  const client = startExample('echo-client', announced);
  expect((await client.rest()).at(0)).toBe('rdma: whole');
  expect(await client.exit).toEqual([0, null]);
});

it.each([url, ...(MESSAGING_IN_FULL ? [`verbmq://${listen}:0`] : [])])(
  'the order example runs over %s, as over TCP',
  (url) => orderExample(url),
);

it('the moving example begins on TCP, and goes on over RDMA while it counts', async () => {
  const { service, url: announced } = await startService('moving-service', `verbmq://${listen}:0`);
  const client = startExample('moving-client', announced);
  expect(await client.rest()).toEqual(['on tcp: negotiating', 'on rdma', 'counted without a gap']);
  expect(await client.exit).toEqual([0, null]);
  service.terminate();
  expect(await service.exit).toEqual([0, null]);
});
