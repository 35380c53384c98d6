// Places in a completion queue: each connection has as many as it can ever fill, and gives them on only when they are empty.
import { describe, expect, test } from 'vitest';
import { onSimulatedDevice, resetForTest } from '../../../test/support/simulated-device.js';
import { errno } from '../../../test/support/simulated-pair.js';
import { until } from '../../../test/support/until.js';
import { EventKind } from '../src/binding.js';
import { engineForTest, newSlab, RawEnd, RawListener, rawAttempt, rawClient } from './raw-ends.js';

await onSimulatedDevice('siw', (device) => {
  describe('places in a completion queue', () => {
    // Soft-iWARP completes every receive of a queue pair that ends, and leaves them there when it is destroyed.
    test('are not given on with what the last connection has left in them', async () => {
      resetForTest(device, 'siw');
      device.set('destroy_blocks_us', 20_000);
      const messages = 300;
      const sides = { polling: 'event', slotBytes: 128 } as const;
      // So many that each connection has a queue for itself.
      const engine = engineForTest(device, { ...sides, receiveSlots: 2000 });
      const ends: RawEnd[] = [];
      const listener = new RawListener(engine, (request) => {
        const end = new RawEnd(engine, newSlab(engine), request);
        engine.native.accept(request, end.slab.memory);
        ends.push(end);
      });
      const client = { ...sides, sendSlots: messages };
      for (const n of [0, 1]) {
        await rawClient(device, listener.port, client);
        await until(() => ends.length > n);
        await ends[n]?.saw(EventKind.accepted);
      }

      // Nothing is polled from here on: no queue says that it has something.
      device.hold('cq-events');
      engine.native.destroy(ends[0]?.handle ?? 0);
      await ends[0]?.saw(EventKind.closed);
      const next = await rawClient(device, listener.port, client);
      const before = device.count('sends');
      for (let slot = 0; slot < messages; slot++) next.engine.submitSend(next.handle, slot, 10);
      next.engine.flush();
      // A queue that overruns is lost, and what would be sent over it.
      await until(() => device.count('sends') - before >= messages || device.count('cq-overruns') > 0);
      expect(device.count('cq-overruns')).toBe(0);
      device.release('cq-events');
      await ends[2]?.saw(EventKind.message, messages);
    });

    test('are not given on with what a request has left in them that could not be accepted', async () => {
      resetForTest(device, 'siw');
      const messages = 300;
      const sides = { polling: 'event', slotBytes: 128 } as const;
      const engine = engineForTest(device, { ...sides, receiveSlots: 2000 });
      const ends: RawEnd[] = [];
      const refused: unknown[] = [];
      const listener = new RawListener(engine, (request) => {
        const slab = newSlab(engine);
        try {
          engine.native.accept(request, slab.memory);
          ends.push(new RawEnd(engine, slab, request));
        } catch (error) {
          refused.push(error);
        }
      });
      const client = { ...sides, sendSlots: messages };
      // Queues stay for as long as anything is connected, and this one has a queue for itself.
      device.set('max_cqe', 2200);
      await rawClient(device, listener.port, client);
      await until(() => ends.length === 1);
      await ends[0]?.saw(EventKind.accepted);
      device.hold('cq-events');
      device.failCall('rdma_accept', errno.ECONNRESET);
      await rawAttempt(device, listener.port, client).saw(EventKind.closed);
      expect(refused).toMatchObject([{ reason: 'verbs', call: 'rdma_accept' }]);

      const next = await rawClient(device, listener.port, client);
      for (let slot = 0; slot < messages; slot++) next.engine.submitSend(next.handle, slot, 10);
      const before = device.count('sends');
      next.engine.flush();
      // A queue that overruns is lost, and what would be sent over it.
      await until(() => device.count('sends') - before >= messages || device.count('cq-overruns') > 0);
      expect(device.count('cq-overruns')).toBe(0);
      device.release('cq-events');
      await ends[1]?.saw(EventKind.message, messages);
    });
  });
});
