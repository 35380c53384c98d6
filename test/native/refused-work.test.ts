// A device that takes no more work says so before any event tells that the connection has ended, or instead of it.
import { describe, expect, test } from 'vitest';
import { numbered, take } from '../support/messages.js';
import type { Pair } from '../support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  async function quietPair(): Promise<Pair> {
    const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
    await Promise.all([pair.client.send(numbered(0)), take(pair.server, 1)]);
    return pair;
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('work that a device like %s refuses', (personality) => {
    test('because the connection is not up any more has lost its peer', async () => {
      resetForTest(device, personality);
      const pair = await quietPair();
      device.failCall('ibv_post_send', errno.ENOTCONN);
      await pair.client.send(numbered(1));
      expect((await pair.client.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
      await expectNothingLeft(device, pair);
    });

    test('for a reason of its own is a fault of the device, with its words', async () => {
      resetForTest(device, personality);
      const pair = await quietPair();
      device.failCall('ibv_post_send', errno.EINVAL);
      await pair.client.send(numbered(1));
      const { error } = await pair.client.closed;
      expect(error?.code).toBe('ERR_VERBMQ_DEVICE');
      expect(error?.message).toContain('ibv_post_send failed: Invalid argument');
      await expectNothingLeft(device, pair);
    });
  });

  // iWARP leaves it to TCP to give up.
  describe.each<Personality>(['rxe', 'mlx'])(
    'a queue pair that has failed (a device like %s)',
    (personality) => {
      test('and takes no more work has lost its peer', async () => {
        resetForTest(device, personality);
        device.set('work_refused_in_error', 1);
        const pair = await quietPair();
        // That it has failed is known to the device alone.
        device.hold('send-completions');
        device.hold('receive-completions');
        device.set('ack_timeout_us', 1000);
        device.setPort(false);
        await pair.client.send(numbered(1));
        await until(() => device.held('send-completions') > 0);
        await pair.client.send(numbered(2));
        expect((await pair.client.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
        device.release('send-completions');
        device.release('receive-completions');
        pair.server.abort();
        await expectNothingLeft(device, pair);
      });
    },
  );
});
