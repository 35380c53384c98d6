// What only a real device can show of exposed memory: that its key is dead, and its work the device's.
import { describe, expect, test } from 'vitest';
import { outcomeOf } from '../support/expectations.js';
import { pattern, sameBytes } from '../support/messages.js';
import { connectPair, type Pair } from '../support/pair.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const setUp = rdmaSetUp(rdmaAddresses());
const BYTES = 100_000;

/** What meets a key that is dead. siw tells neither side why; of others one or both say it. */
const REFUSED =
  process.env.VERBMQ_GUEST_DRIVER === 'siw'
    ? ['ERR_VERBMQ_CONNECTION_LOST']
    : ['ERR_VERBMQ_REMOTE_ACCESS', 'ERR_VERBMQ_CONNECTION_LOST'];

async function share({ client, server }: Pair) {
  const owned = await server.expose(BYTES, { read: true, write: true });
  return { owned, remote: client.attach(owned.descriptor) };
}

describe('a key', () => {
  test.each(['write', 'read'] as const)(
    'is dead for the device as soon as revoke() was called (%s)',
    async (what) => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair);
      const target = new Uint8Array(BYTES);
      owned.data.fill(7);
      // Both in one turn of the loop: nobody has told the client yet, so the device itself has to refuse.
      const revoking = owned.revoke();
      const operation = what === 'write' ? remote.write(0, pattern(BYTES)) : remote.read(0, target);
      expect(REFUSED).toContain(await outcomeOf(() => operation));
      await revoking;
      for (const { closed } of [pair.client, pair.server]) {
        expect(REFUSED).toContain((await closed).error?.code);
      }
      expect(owned.data.every((byte) => byte === 7)).toBe(true);
      expect(target.every((byte) => byte === 0)).toBe(true);
    },
  );
});

test('memory is registered as long as it is exposed, and no longer', async () => {
  const pair = await connectPair(setUp);
  const first = await share(pair);
  await first.remote.write(0, pattern(BYTES)); // registers what is registered once
  expect(sameBytes(first.owned.data, pattern(BYTES))).toBe(true);
  await first.owned.revoke();
  const before = countVerbsObjects().mr;
  const pieces = [await share(pair), await share(pair), await share(pair)];
  expect(countVerbsObjects().mr).toBe(before + 3);
  await Promise.all(pieces.map(({ owned }) => owned.revoke()));
  await until(() => countVerbsObjects().mr <= before);
});
