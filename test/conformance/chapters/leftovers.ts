import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { failure, settled } from '../../support/expectations.js';
import { numbered, take } from '../../support/messages.js';
import { connectPair, listenForTest, nextConnection, transportForTest } from '../../support/pair.js';
import { PeerProcess } from '../../support/peer-process.js';
import { type SetUp, scaled } from '../../support/set-up.js';
import { until } from '../../support/until.js';

type Handles = Map<string, number>;

/** The handles of this process that sockets, servers and devices have: how many of each kind. */
function handles(): Handles {
  const counts: Handles = new Map();
  for (const kind of process.getActiveResourcesInfo()) {
    if (/TCP|Pipe|TLS|Poll|Async/.test(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

/** Waits until there are no more handles of any kind than before: Node gives one back a turn after its end was told. */
async function nothingMoreThan(before: Handles): Promise<void> {
  await until(() => [...handles()].every(([kind, count]) => count <= (before.get(kind) ?? 0)));
}

export function leftovers(setUp: SetUp): void {
  for (const ends of ['connection', 'transport', 'abort'] as const) {
    test(`a process in which everything was ended by ${ends === 'abort' ? 'abort' : `closing the ${ends}`} exits by itself`, async () => {
      const peer = new PeerProcess(setUp, { role: 'alone', ends });
      await peer.reported('done');
      expect(await peer.exited).toBe(0);
    });
  }

  test('many connections in turn leave nothing behind', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const before = handles();
    const count = scaled(200, 20);
    for (let n = 0; n < count; n++) {
      const accepted = nextConnection(listener);
      const client = await transport.connect(listener.url);
      const server = await accepted;
      await client.send(numbered(n));
      await take(server, 1);
      if (n % 3 === 0) client.abort('one in three');
      else void (n % 3 === 1 ? client : server).close();
      await Promise.all([client.closed, server.closed]);
    }
    expect(transport.stats()).toMatchObject({ connections: 0, messagesSent: count });
    await nothingMoreThan(before);
  });

  test('connects that fail or are cancelled leave nothing behind', async () => {
    const listener = await listenForTest(setUp);
    listener.onConnection(() => {});
    const transport = transportForTest(setUp);
    const before = handles();
    for (let n = 0; n < scaled(50, 10); n++) {
      await failure(transport.connect(setUp.deadAddress()), 'ERR_VERBMQ_CONNECT_FAILED');
      const controller = new AbortController();
      const cancelled = settled(transport.connect(listener.url, { signal: controller.signal }));
      if (n % 2 === 0) controller.abort();
      else setImmediate(() => controller.abort());
      expect(['ok', 'ERR_VERBMQ_CANCELLED']).toContain(await cancelled);
    }
    await transport.close();
    await nothingMoreThan(before);
  });

  test('an abort signal is not listened to after connect', async () => {
    const controller = new AbortController();
    await connectPair(setUp, { connect: { signal: controller.signal } });
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    await failure(
      transportForTest(setUp).connect(setUp.deadAddress(), { signal: controller.signal }),
      'ERR_VERBMQ_CONNECT_FAILED',
    );
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  test('a transport that was closed holds nothing', async () => {
    const before = handles();
    const { clientTransport, serverTransport } = await connectPair(setUp);
    await Promise.all([clientTransport.close(), serverTransport.close()]);
    await nothingMoreThan(before);
  });
}
