import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '@verbmq/core';
import { type Polling, RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import { describe, expect, onTestFinished, test } from 'vitest';

const host = process.env.VERBMQ_RDMA_ADDRESS as string;
const MODES: Polling[] = ['event', 'adaptive', 'busy'];

/** A connection whose peer, with a transport of its own, sends everything back. */
async function connectEcho(polling: Polling, own: RdmaTransportOptions = {}): Promise<Connection> {
  const server = new RdmaTransport({ polling, ...own });
  const client = new RdmaTransport({ polling, ...own });
  onTestFinished(() => client.close().then(() => server.close()));
  const listener = await server.listen({ host, port: 0 });
  listener.onConnection((connection) => {
    connection.onMessage((message) => {
      // Where the connection ends under an answer, nobody waits for it.
      connection.send(message.data).catch(() => {});
    });
  });
  return client.connect(listener.url);
}

describe.each(MODES)('polling: %s', (polling) => {
  test('no completion is overslept, whatever the pause before it', async () => {
    // No heartbeat wakes who has overslept.
    const connection = await connectEcho(polling, { heartbeatIntervalMs: 0 });
    let arrived: () => void = () => {};
    connection.onMessage(() => arrived());
    for (let n = 0; n < 300; n++) {
      const answer = new Promise<void>((resolve) => {
        arrived = resolve;
      });
      void connection.send(new Uint8Array(8));
      await answer;
      // Pauses around the time for which adaptive polling goes on, where it is about to sleep.
      if (n % 3 !== 0) await sleep((n % 7) / 2);
    }
    expect(await connection.close()).toMatchObject({ graceful: true });
  });

  test('timers and immediates of the same loop still run', async () => {
    const connection = await connectEcho(polling);
    connection.onMessage((message) => {
      connection.send(message.data).catch(() => {});
    });
    for (let n = 0; n < 32; n++) await connection.send(new Uint8Array(100));
    for (let n = 0; n < 20; n++) {
      await sleep(1);
      await new Promise((resolve) => setImmediate(resolve));
    }
    connection.abort('enough');
    await connection.closed;
  });
});

test.each<Polling>(['event', 'adaptive'])(
  'an idle connection takes no processor time (%s)',
  async (polling) => {
    const connection = await connectEcho(polling);
    const answer = new Promise((resolve) => connection.onMessage(resolve));
    await connection.send(new Uint8Array(8));
    await answer;
    await sleep(500); // what follows a message, such as adaptive polling, is over
    const before = process.cpuUsage();
    await sleep(3000);
    const { user, system } = process.cpuUsage(before);
    // The test runner has some work of its own; polling would take the whole of the time.
    expect((user + system) / 1000).toBeLessThan(600);
  },
);
