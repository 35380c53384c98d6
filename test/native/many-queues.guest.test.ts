// More connections over a real device than one completion queue has room for.
import { expect, test } from 'vitest';
import { expectEchoes, numbered, numberOf, take } from '../support/messages.js';
import { connectPair, nextConnection } from '../support/pair.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const setUp = rdmaSetUp(rdmaAddresses());
const CONNECTIONS = 9;
const MESSAGES = 60;
const ECHOES = 20;

test('connections on several completion queues are all served, and the queues go with them', async () => {
  const before = countVerbsObjects();
  // The first queue has room for one such connection, or, where the device gives more than it was asked for, for three.
  const many = { slotBytes: 128, receiveSlots: 1024, polling: 'event' } as object;
  // No heartbeat wakes who has overslept.
  const pair = await connectPair(setUp, { both: { ...many, heartbeatIntervalMs: 0 } });
  const ends = [{ client: pair.client, server: pair.server }];
  while (ends.length < CONNECTIONS) {
    const accepted = nextConnection(pair.listener);
    ends.push({ client: await pair.clientTransport.connect(pair.listener.url), server: await accepted });
  }
  // Two for each of both transports, or three.
  expect(countVerbsObjects().cq - before.cq).toBeGreaterThanOrEqual(4);
  await Promise.all(
    ends.flatMap(({ client, server }) =>
      [[client, server] as const, [server, client] as const].map(async ([from, to]) => {
        const receiving = take(to, MESSAGES);
        for (let n = 0; n < MESSAGES; n++) await from.send(numbered(n));
        expect((await receiving).map(numberOf)).toEqual(Array.from({ length: MESSAGES }, (_, n) => n));
      }),
    ),
  );
  // One at a time, so that nothing but its own queue has anything to tell.
  for (const end of ends) await expectEchoes(end, ECHOES);
  await Promise.all([pair.clientTransport.close(), pair.serverTransport.close()]);
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
});
