// A connection on two paths is closed when nothing of either is left, also of a path that it had left before.

import { type AutoConnection, type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { RdmaTransport, TcpTransport } from 'verbmq';
import { expect, onTestFinished, test } from 'vitest';
import { asAuto, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { numbered } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { CompletionStatus, onSimulatedDevice, resetForTest } from '../support/simulated-device.js';

/** What a device may take to give back what was posted to it. */
const FLUSH_US = 500_000;

await onSimulatedDevice('rxe', (device) => {
  /** A pair that is on its fast path. */
  async function pairOnFast(options: AutoOptions = {}) {
    resetForTest(device, 'rxe');
    const make = () => {
      const rdma = new RdmaTransport({ libraries: device.libraries });
      const transport = new AutoTransport({
        ...QUICK,
        fastTimeoutMs: 2000,
        ...options,
        base: new TcpTransport(),
        fast: rdma,
      });
      onTestFinished(() => transport.close());
      return { rdma, transport };
    };
    const listener = await make().transport.listen('verbmq://127.0.0.1:0');
    const accepted = nextConnection(listener);
    const { rdma, transport } = make();
    const client = asAuto(abortAfterTest(await transport.connect(listener.url)));
    const server = asAuto(abortAfterTest(await accepted));
    server.onMessage(() => {});
    await Promise.all([onFast(client), onFast(server)]);
    return { rdma, client, server };
  }

  /** The fast path breaks, and is being left. */
  async function breakFast(client: AutoConnection): Promise<void> {
    device.failWork(CompletionStatus.retriesExceeded);
    await client.send(numbered(1));
    await pathIs(client, ({ flowing }) => !flowing);
  }

  test.each(['close', 'abort'] as const)('%s waits for a fast path that was left', async (how) => {
    const { rdma, client } = await pairOnFast();
    device.set('flush_delay_us', FLUSH_US);
    await breakFast(client);
    expect(rdma.stats().connections).toBe(1);
    if (how === 'close') expect(await client.close()).toMatchObject({ graceful: true });
    else client.abort();
    await client.closed;
    expect(rdma.stats().connections).toBe(0);
  });

  test('close is in order when all is delivered, though the device takes longer than that may', async () => {
    const closeTimeoutMs = 1500;
    const { client, server } = await pairOnFast({
      closeTimeoutMs,
      maxFastRetryMs: 60_000,
      minFastRetryMs: 60_000,
    });
    device.set('destroy_blocks_us', 3 * closeTimeoutMs * 1000);
    await breakFast(client);
    const from = performance.now();
    expect(await client.close()).toEqual({ graceful: true, initiator: 'local' });
    expect(performance.now() - from).toBeGreaterThan(closeTimeoutMs);
    expect(await server.closed).toEqual({ graceful: true, initiator: 'remote' });
    device.set('destroy_blocks_us', 0);
  });
});
