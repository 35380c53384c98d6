// Devices give the number of a queue pair to another one as soon as it is gone. Where receives are shared it is all that tells whose
// message has come.
import { expect, test } from 'vitest';
import { onSimulatedDevice, resetForTest } from '../../../test/support/simulated-device.js';
import { until } from '../../../test/support/until.js';
import { EventKind, type Handle } from '../src/binding.js';
import { Slab } from '../src/slab.js';
import { engineForTest, RawEnd, RawListener, rawAttempt } from './raw-ends.js';

await onSimulatedDevice('mlx', (device) => {
  test('a queue pair with the number of one that has just gone gets its messages', async () => {
    resetForTest(device, 'mlx');
    device.set('queue_pair_numbers_reused', 1);
    const engine = engineForTest(device, { sharedReceiveQueue: { slots: 64 } });
    const requests: Handle[] = [];
    const listener = new RawListener(engine, (request) => void requests.push(request));
    const accept = (): RawEnd => {
      const request = requests.shift() as Handle;
      const slab = new Slab(engine.addon, engine.options, 1024 * 1024, engine.receivePools?.join(request));
      const end = new RawEnd(engine, slab, request);
      engine.native.accept(request, slab.memory);
      return end;
    };
    rawAttempt(device, listener.port);
    await until(() => requests.length === 1);
    const client = rawAttempt(device, listener.port);
    await until(() => requests.length === 2);
    const first = accept();
    await first.saw(EventKind.accepted);

    // The other end hears of nothing, so that its queue pair stays.
    device.hold('cm-events');
    const destroyed = device.calls('ibv_destroy_qp');
    const alive = device.live('qp');
    device.set('destroy_blocks_us', 100_000);
    engine.native.destroy(first.handle);
    await until(() => device.calls('ibv_destroy_qp') === destroyed + 1);
    // The queue pair goes on another thread, and nothing happens here until the next one is made.
    while (device.live('qp') === alive) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    const second = accept();
    device.set('destroy_blocks_us', 0);
    device.release('cm-events');
    await first.saw(EventKind.closed);

    await client.saw(EventKind.connected);
    client.engine.submitSend(client.handle, 0, 8);
    expect(await second.saw(EventKind.message)).toEqual([[EventKind.message, expect.any(Number), 8]]);
  });
});
