// Registered memory of large messages on a real device: where they lie, how it grows, and that it shrinks again.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '@verbmq/core';
import type { RdmaConnectionStats } from '@verbmq/native';
import { expect, test } from 'vitest';
import { connectPair } from '../support/pair.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const setUp = rdmaSetUp(rdmaAddresses());
const KIB = 1024;
const MIB = 1024 * KIB;

const registered = (connection: Connection): number =>
  (connection.stats() as RdmaConnectionStats).registeredBytes;

test.each([100, 60 * KIB, MIB])(
  'a leased message of %i bytes is not copied when it is sent, and lands in memory that is used again',
  async (length) => {
    const { client, server } = await connectPair(setUp);
    const seen: { buffer: ArrayBufferLike; offset: number; values: Set<number> }[] = [];
    server.onMessage(({ data }) => {
      seen.push({ buffer: data.buffer, offset: data.byteOffset, values: new Set(data) });
    });
    let regions = 0;
    for (let n = 1; n <= 4; n++) {
      const lease = client.allocate(length);
      const { data } = lease;
      data.fill(0);
      const sending = client.send(lease);
      // In the same turn of the event loop the device has been told nothing. A copy would not see this.
      data.fill(n);
      await sending;
      await until(() => seen.length === n && client.stats().bytesBuffered === 0);
      if (n === 1) regions = countVerbsObjects().mr;
    }
    expect(seen.map(({ values }) => [...values])).toEqual([[1], [2], [3], [4]]);
    expect(new Set(seen.map(({ buffer }) => buffer)).size).toBe(1);
    // Slots take turns.
    if (length > 4096) expect(new Set(seen.map(({ offset }) => offset)).size).toBe(1);
    expect(countVerbsObjects().mr).toBe(regions);
  },
);

test('memory grows as far as the bound, and what nobody uses any more is given back', async () => {
  const { client } = await connectPair(setUp, { both: { largeMemoryBytes: 6 * MIB } as object });
  const idle = registered(client);
  const before = countVerbsObjects().mr;
  const leases = Array.from({ length: 6 }, () => client.allocate(MIB));
  expect(registered(client)).toBe(idle + 6 * MIB);
  expect(countVerbsObjects().mr).toBe(before + 6);
  expect(() => client.allocate(MIB)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }));
  for (const lease of leases.slice(1)) lease.release();
  // What is used stays.
  while (registered(client) > idle + MIB) await sleep(100);
  expect(countVerbsObjects().mr).toBe(before + 1);
  // And it grows again.
  client.allocate(MIB);
  expect(registered(client)).toBe(idle + 2 * MIB);
});
