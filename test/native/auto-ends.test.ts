// A connection on two paths is closed when nothing of either is left, also of a path that it had left before.

import { AutoTransport } from '@verbmq/core/auto';
import { RdmaTransport, TcpTransport } from 'verbmq';
import { expect, onTestFinished, test } from 'vitest';
import { asAuto, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { numbered } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { CompletionStatus, onSimulatedDevice, resetForTest } from '../support/simulated-device.js';

/** What a device may take to give back what was posted to it. */
const FLUSH_US = 500_000;

await onSimulatedDevice('rxe', (device) => {
  test.each(['close', 'abort'] as const)('%s waits for a fast path that was left', async (how) => {
    resetForTest(device, 'rxe');
    const make = () => {
      const rdma = new RdmaTransport({ libraries: device.libraries });
      const transport = new AutoTransport({
        ...QUICK,
        fastTimeoutMs: 2000,
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
    device.set('flush_delay_us', FLUSH_US);
    device.failWork(CompletionStatus.retriesExceeded);
    await client.send(numbered(1));
    await pathIs(client, ({ flowing }) => !flowing);
    expect(rdma.stats().connections).toBe(1);
    if (how === 'close') expect(await client.close()).toMatchObject({ graceful: true });
    else client.abort();
    await client.closed;
    expect(rdma.stats().connections).toBe(0);
  });
});
