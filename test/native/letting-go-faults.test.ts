// Calls fail that refuse somebody, or let something go: nobody else notices, and what can be given back is.
import { isDeepStrictEqual } from 'node:util';
import type { Connection } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { failure, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { nextConnection, type Pair, transportForTest } from '../support/pair.js';
import {
  CmEvent,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

type Sides = Pick<Pair, 'clientTransport' | 'listener'>;

async function expectTraffic({ clientTransport, listener }: Sides): Promise<Connection> {
  const accepted = nextConnection(listener);
  const client = await clientTransport.connect(listener.url);
  await expectMessages(client, await accepted);
  return client;
}

async function expectMessages(client: Connection, server: Connection): Promise<void> {
  await Promise.all([client.send(numbered(1)), server.send(numbered(2))]);
  expect((await take(server, 1)).map(numberOf)).toEqual([1]);
  expect((await take(client, 1)).map(numberOf)).toEqual([2]);
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test.each(['EINVAL', 'ENOMEM'] as const)(
      'a request that cannot be refused (%s) is let go, which tells its peer as well',
      async (name) => {
        resetForTest(device, personality);
        const sharedReceiveQueue = { slots: 8, maxConnections: 1 };
        const serverTransport = transportForTest(simulatedSetUp(device, { sharedReceiveQueue }));
        const clientTransport = transportForTest(simulatedSetUp(device));
        const listener = await serverTransport.listen('rdma://127.0.0.1:0');
        const accepted = nextConnection(listener);
        const client = await clientTransport.connect(listener.url);
        const server = await accepted;
        const before = device.leftOver();

        device.failCall('rdma_reject', errno[name]);
        const { message } = await failure(clientTransport.connect(listener.url), 'ERR_VERBMQ_CONNECT_FAILED');
        // Over iWARP nobody can tell.
        expect(message).toContain(personality === 'siw' ? 'nobody listens there' : 'without saying why');
        expect(device.calls('rdma_reject')).toBe(1);
        expect(listener.stats()).toEqual({ accepted: 1, failed: 1 });
        await until(() => isDeepStrictEqual(device.leftOver(), before));

        await Promise.all([client.close(), server.closed]);
        await expectTraffic({ clientTransport, listener });
        await Promise.all([clientTransport.close(), serverTransport.close()]);
        await until(() => Object.keys(device.leftOver()).length === 0);
      },
    );

    test('a listener that is not let go refuses whoever comes, and not what took its place', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.failCall('rdma_destroy_id', errno.EIO);
      await pair.listener.close();
      const listener = await pair.serverTransport.listen('rdma://127.0.0.1:0');
      const ids = device.live('cm-id');
      await failure(pair.clientTransport.connect(pair.listener.url), 'ERR_VERBMQ_REJECTED');
      await until(() => device.live('cm-id') === ids);
      expect(listener.stats()).toEqual({ accepted: 0, failed: 0 });
      await expectTraffic({ ...pair, listener });
      await expectNothingLeft(device, pair);
    });

    test('connections that are not let go have no say in those that take their places', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.failCall('rdma_destroy_id', errno.EIO, { times: 2 });
      await Promise.all([pair.client.close(), pair.server.closed]);
      expect(device.calls('rdma_destroy_id')).toBe(2);
      const accepted = nextConnection(pair.listener);
      const client = await pair.clientTransport.connect(pair.listener.url);
      const server = await accepted;
      await until(() => device.raiseCmEvent(CmEvent.disconnected, 0, 'disconnected') === 2);
      await until(() => device.calls('rdma_ack_cm_event') === device.count('cm-events'));
      await turns();
      await expectMessages(client, server);
      expect([client.state, server.state]).toEqual(['open', 'open']);
      await expectNothingLeft(device, pair);
    });

    test.each([
      ['cannot be asked for', errno.EMFILE],
      ['stays on the list for a while', undefined],
    ])('a device that is gone, and %s, is asked for until it is let go', async (_, error) => {
      resetForTest(device, personality);
      device.set('decoy_devices', 1); // librdmacm closes a device only where there is another one
      device.set('removed_device_listed', 1);
      const pair = await simulatedPair(device);
      const asked = device.calls('rdma_get_devices');
      if (error !== undefined) device.failCall('rdma_get_devices', error, { times: 6 });
      device.remove();
      await Promise.all([pair.client.closed, pair.server.closed]);
      // For the third time at least, as there are two sides, and nobody connects or listens meanwhile.
      await until(() => device.calls('rdma_get_devices') - asked > 4);
      expect(device.count('closed-devices')).toBe(0);
      device.set('removed_device_listed', 0);
      await until(() => device.count('closed-devices') === 1);
      await expectNothingLeft(device, pair);
    });

    test('a device that is gone when no other is left is asked for by the next attempt that fails', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.failCall('rdma_get_devices', errno.EMFILE, { times: -1 });
      device.remove();
      for (const { error } of await Promise.all([pair.client.closed, pair.server.closed]))
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST', reason: 'device-lost' });
      await until(() => device.calls('rdma_get_devices') >= 2); // once for each side

      device.restore();
      const asked = device.calls('rdma_get_devices');
      device.failCall('rdma_resolve_addr', errno.ENODEV);
      await failure(pair.clientTransport.connect(pair.listener.url), 'ERR_VERBMQ_CONNECT_FAILED');
      expect(device.calls('rdma_get_devices')).toBeGreaterThan(asked);
      const listener = await pair.serverTransport.listen('rdma://127.0.0.1:0');
      await expectTraffic({ ...pair, listener });
      await expectNothingLeft(device, pair);
    });
  });
});
