// Connections that share their receive slots, on a real device.
import type { Connection } from '@verbmq/core';
import { RdmaTransport, type RdmaTransportStats } from '@verbmq/native';
import { expect, onTestFinished, test } from 'vitest';
import { transportForTest } from '../support/pair.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const setUp = rdmaSetUp(rdmaAddresses());
const CONNECTIONS = 24;
const MESSAGES = 100;

test('share slots, and every one of them comes back', async () => {
  const before = countVerbsObjects();
  const slots = CONNECTIONS * 8 + 100;
  const transport = new RdmaTransport({
    slotBytes: 1024,
    receiveSlots: 64,
    sharedReceiveQueue: { slots, maxConnections: CONNECTIONS },
  });
  onTestFinished(() => transport.close());
  const clients = transportForTest(setUp);
  const listener = await transport.listen(setUp.listenAddress());
  const shared = (): NonNullable<RdmaTransportStats['sharedReceiveQueue']> =>
    transport.stats().sharedReceiveQueue as never;

  // The server answers every message, in the memory of its choice: small ones and large ones.
  listener.onConnection((connection) => {
    connection.onMessage((message) => void connection.send(message.data.slice()).catch(() => {}));
  });
  const talk = async (client: Connection): Promise<void> => {
    let answers = 0;
    client.onMessage((message) => {
      const { data } = message;
      expect(data.length).toBe((answers * 37) % 3000);
      expect(data.every((byte) => byte === answers % 251)).toBe(true);
      answers++;
    });
    for (let n = 0; n < MESSAGES; n++) await client.send(Buffer.alloc((n * 37) % 3000, n % 251));
    await until(() => answers === MESSAGES);
  };
  const open = await Promise.all(Array.from({ length: CONNECTIONS }, () => clients.connect(listener.url)));
  await Promise.all(open.map(talk));
  await until(() => shared().postedSlots === slots);
  expect(shared()).toMatchObject({ slots, connections: CONNECTIONS });

  // Half of them end in the middle of traffic, and others take their places.
  for (const client of open.splice(0, CONNECTIONS / 2)) {
    for (let n = 0; n < 10; n++) client.trySend(Buffer.alloc(900));
    client.abort('the test goes on');
    await client.closed;
  }
  await until(() => shared().connections === CONNECTIONS / 2);
  const others = await Promise.all(
    Array.from({ length: CONNECTIONS / 2 }, () => clients.connect(listener.url)),
  );
  await Promise.all([...open, ...others].map((client) => client.send(Buffer.alloc(5))));
  await until(() => shared().postedSlots === slots);

  await Promise.all([clients.close(), transport.close()]);
  await expect.poll(countVerbsObjects, { timeout: 5000 }).toEqual(before);
});
