// On kernels before 5.12 registered pages are missing in children after a fork. This file is a process of its own, in which the
// libraries are opened, and prepared for that, once.
import { RdmaTransport } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { failure } from '../support/expectations.js';
import { expectBytes, pattern, take } from '../support/messages.js';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';

/** Memory of this length would be lent to the device. */
const LONG = 600 * 1024;

await onSimulatedDevice('rxe', (device) => {
  // Before the libraries are opened, and never reset, so that all calls are counted.
  device.set('fork_protection_unneeded', 0);

  describe('where a fork hides registered pages', () => {
    const { libraries } = device;

    test('a library that cannot be prepared is not used, and is asked again', async () => {
      // So it answers when memory was registered before, by whoever else uses it in this process.
      device.failCall('ibv_fork_init', errno.EINVAL, { times: 3 });
      const transport = new RdmaTransport({ libraries });
      const found = await transport.probe();
      expect(found).toMatchObject({ available: false, code: 'verbs' });
      expect(found).toHaveProperty('reason', expect.stringContaining('ibv_fork_init failed'));
      expect(found).toHaveProperty('reason', expect.stringContaining('RDMAV_FORK_SAFE=1'));
      for (const attempt of [transport.listen('rdma://127.0.0.1:0'), transport.connect('rdma://127.0.0.1:1')])
        expect((await failure(attempt, 'ERR_VERBMQ_DEVICE')).message).toContain('RDMAV_FORK_SAFE=1');
      expect(device.calls('ibv_fork_init')).toBe(3);
      expect(device.leftOver()).toEqual({});
    });

    test('libibverbs is told once, whoever opens it', async () => {
      const refused = device.calls('ibv_fork_init');
      expect(await new RdmaTransport({ libraries }).probe()).toMatchObject({ available: true });
      for (let n = 0; n < 2; n++) {
        const pair = await simulatedPair(device);
        expect(device.calls('ibv_fork_init')).toBe(refused + 1);
        await expectNothingLeft(device, pair);
      }
    });

    test("a long message is copied, and its memory the sender's again at once", async () => {
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
      const data = pattern(LONG);
      device.hold('hardware');
      await pair.client.send(data);
      data.fill(0);
      device.release('hardware');
      expectBytes((await take(pair.server, 1))[0] as Uint8Array, pattern(LONG));
      await expectNothingLeft(device, pair);
    });

    test('memory of the application cannot be exposed, and that of expose() can', async () => {
      const pair = await simulatedPair(device);
      const regions = device.live('mr');
      await failure(pair.server.expose(new Uint8Array(4096), { read: true }), 'ERR_VERBMQ_UNSUPPORTED');
      expect(device.live('mr')).toBe(regions);
      const owned = await pair.server.expose(LONG, { read: true, write: true });
      const remote = pair.client.attach(owned.descriptor);
      const data = pattern(LONG);
      await remote.write(0, data);
      expectBytes(owned.data, data);
      const back = new Uint8Array(LONG);
      await remote.read(0, back);
      expectBytes(back, data);
      await expectNothingLeft(device, pair);
    });
  });
});
