// What devices report by themselves: their end, their ports, queues that have failed.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Connection } from '@verbmq/core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { numbered, numberOf, take } from '../support/messages.js';
import { connectPair, nextConnection, type Pair, transportForTest } from '../support/pair.js';
import { recordedLog } from '../support/recorded-log.js';
import {
  AsyncEvent,
  CmEvent,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

/** By which siw is known from iWARP devices that mean what they say. */
const SIW_VENDOR = 0x626d74;

const talker = fileURLToPath(new URL('./children/talker.mjs', import.meta.url));

interface Notice {
  readonly device: string;
  readonly event: string;
  readonly port: number;
}

/** What is published of devices until the test is over. */
function notices(): Notice[] {
  const heard: Notice[] = [];
  const hear = (message: unknown): void => {
    heard.push(message as Notice);
  };
  subscribe('verbmq:device:notice', hear);
  onTestFinished(() => {
    unsubscribe('verbmq:device:notice', hear);
  });
  return heard;
}

async function expectTraffic({ client, server }: Pick<Pair, 'client' | 'server'>): Promise<void> {
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    await from.send(numbered(7));
    expect((await take(to, 1)).map(numberOf)).toEqual([7]);
  }
}

/** Another connection of the same transports. */
async function oneMore(pair: Pair): Promise<Pick<Pair, 'client' | 'server'>> {
  const accepted = nextConnection(pair.listener);
  const client = await pair.clientTransport.connect(pair.listener.url);
  return { client, server: await accepted };
}

async function codeAtEnd(connection: Connection): Promise<string | undefined> {
  return (await connection.closed).error?.code;
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test.each([
      // Soft-iWARP means that the TCP connection below was reset.
      ['queuePairFatal', personality === 'siw' ? 'ERR_VERBMQ_CONNECTION_LOST' : 'ERR_VERBMQ_DEVICE'],
      // And that it could not answer a read.
      ['queuePairRequestError', personality === 'siw' ? 'ERR_VERBMQ_CONNECTION_LOST' : 'ERR_VERBMQ_PROTOCOL'],
      ['queuePairAccessError', 'ERR_VERBMQ_REMOTE_ACCESS'],
    ] as const)('that reports %s of a queue pair ends its connection alone, with %s', async (event, code) => {
      resetForTest(device, personality);
      if (personality === 'siw') {
        device.set('vendor_id', SIW_VENDOR);
        device.set('max_cqe', 65_536); // for the guard that siw needs, mapping_guard.h
      }
      const pair = await simulatedPair(device);
      const other = await oneMore(pair);
      device.raiseAsyncEvent(AsyncEvent[event]);
      // The oldest queue pair is the client's. Nothing else has happened to it than this report.
      expect(await codeAtEnd(pair.client)).toBe(code);
      await pair.server.closed;
      await expectTraffic(other);
      await expectNothingLeft(device, pair);
    });

    if (personality === 'siw')
      test('that reports why a connection is lost is heard before what rdma_cm says of it', async () => {
        resetForTest(device, personality);
        device.set('vendor_id', SIW_VENDOR);
        device.set('max_cqe', 65_536);
        const pair = await simulatedPair(device);
        device.raiseAsyncEvent(AsyncEvent.queuePairFatal);
        expect(device.raiseCmEvent(CmEvent.disconnected)).toBe(2);
        expect((await pair.client.closed).error?.message).toContain('TCP connection below it was reset');
        await pair.server.closed;
        await expectNothingLeft(device, pair);
      });

    test('that reports an error of a completion queue ends the connections on it, and no others', async () => {
      resetForTest(device, personality);
      // One connection fills a queue.
      device.set('max_cqe', 300);
      const pair = await simulatedPair(device, { polling: 'event' });
      const other = await oneMore(pair);
      device.raiseAsyncEvent(AsyncEvent.completionQueueError);
      expect(await codeAtEnd(pair.client)).toBe('ERR_VERBMQ_DEVICE');
      await pair.server.closed;
      await expectTraffic(other);
      // The queue that failed is not used again, though it has room.
      await expectTraffic(await oneMore(pair));
      await expectNothingLeft(device, pair);
    });

    test('that can no longer poll a queue ends the connections on it, and no others', async () => {
      resetForTest(device, personality);
      device.set('max_cqe', 300);
      const pair = await simulatedPair(device, { polling: 'event' });
      const others = [pair, await oneMore(pair)];
      device.failCall('ibv_poll_cq', errno.EIO);
      const sending = others.map(({ client }) => client.send(numbered(1)).catch(() => {}));
      const ended = await Promise.race(
        others.map((each) => Promise.all([each.client.closed, each.server.closed]).then(() => each)),
      );
      await Promise.all(sending);
      await expectTraffic(await oneMore(pair));
      expect(others.filter(({ client }) => client.state === 'open')).toEqual(
        others.filter((each) => each !== ended),
      );
      await expectNothingLeft(device, pair);
    });

    test('that has failed ends every connection with one error that names it', async () => {
      resetForTest(device, personality);
      const heard = notices();
      const pair = await simulatedPair(device);
      const other = await oneMore(pair);
      device.raiseAsyncEvent(AsyncEvent.deviceFatal);
      for (const each of [pair.client, pair.server, other.client, other.server]) {
        const { error } = await each.closed;
        expect(error).toMatchObject({
          code: 'ERR_VERBMQ_CONNECTION_LOST',
          reason: 'device-lost',
          retryable: true,
        });
        expect(error?.message).toMatch(/RDMA device simulated\d was removed or has failed/);
      }
      // Once for each of the two transports that use it.
      await until(() => heard.length === 2);
      for (const notice of heard) expect(notice).toMatchObject({ event: 'device-fatal', port: 0 });
      await expectTraffic(await oneMore(pair));
      await expectNothingLeft(device, pair);
    });

    test('that is removed while nobody uses it is let go when the next attempt fails', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device);
      const { url } = await transportForTest(setUp).listen(setUp.listenAddress());
      const client = transportForTest(setUp);
      const faults = [
        () => device.failCall('rdma_resolve_addr', errno.ENODEV),
        () => device.failCall('rdma_resolve_route', errno.ENODEV),
        () => device.replaceCmEvent(CmEvent.addrResolved, CmEvent.addrError, -errno.ENODEV),
      ];
      for (const fail of faults) {
        const asked = device.calls('rdma_get_devices');
        fail();
        await expect(client.connect(url)).rejects.toMatchObject({ name: 'VerbmqError' });
        expect(device.calls('rdma_get_devices')).toBe(asked + 1);
      }
    });

    test('that is removed is let go when only a listener stands on it, and when listening fails after that', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device);
      const server = transportForTest(setUp);
      const listener = await server.listen(setUp.listenAddress());
      const asked = device.calls('rdma_get_devices');
      device.remove();
      await listener.closed;
      await until(() => device.calls('rdma_get_devices') === asked + 1);

      // It may still be on its way out: whoever asks again finds it gone at last.
      device.failCall('rdma_bind_addr', errno.ENODEV);
      await expect(server.listen(setUp.listenAddress())).rejects.toMatchObject({ name: 'VerbmqError' });
      expect(device.calls('rdma_get_devices')).toBe(asked + 2);
    });

    test('that goes while it accepts is let go', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device);
      const { url } = await transportForTest(setUp).listen(setUp.listenAddress());
      const client = transportForTest(setUp);
      const asked = device.calls('rdma_get_devices');
      device.failCall('rdma_accept', errno.ENODEV);
      await expect(client.connect(url)).rejects.toMatchObject({ name: 'VerbmqError' });
      expect(device.calls('rdma_get_devices')).toBeGreaterThan(asked);
    });

    test('whose reports cannot be read any more is taken for one that has failed', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.failCall('ibv_get_async_event', errno.EIO);
      device.raiseAsyncEvent(AsyncEvent.gidChange);
      for (const each of [pair.client, pair.server]) {
        expect((await each.closed).error?.message).toMatch(
          /RDMA device simulated\d was removed or has failed/,
        );
      }
      await expectTraffic(await oneMore(pair));
      await expectNothingLeft(device, pair);
    });

    test('whose port goes down and up again says so, and ends nothing', async () => {
      resetForTest(device, personality);
      const heard = notices();
      const { lines, logger } = recordedLog();
      const setUp = simulatedSetUp(device);
      const pair = await connectPair(setUp, { client: { logger } });
      device.setPort(false);
      await until(() => heard.length === 2);
      device.setPort(true);
      await until(() => heard.length === 4);
      const name = expect.stringMatching(/^simulated\d$/);
      for (const [at, event] of ['port-error', 'port-error', 'port-active', 'port-active'].entries()) {
        expect(heard[at]).toMatchObject({ device: name, event, port: 1 });
      }
      expect(lines.filter(({ message }) => message?.startsWith('RDMA device'))).toMatchObject([
        { level: 'warn', device: name, event: 'port-error', port: 1 },
        { level: 'info', device: name, event: 'port-active', port: 1 },
      ]);
      await expectTraffic(pair);
      await expectNothingLeft(device, pair);
    });

    test.each([
      'communicationEstablished',
      'lidChange',
      'pkeyChange',
      'subnetManagerChange',
      'clientReregister',
      'gidChange',
    ] as const)('may report %s, which needs no answer', async (event) => {
      resetForTest(device, personality);
      const heard = notices();
      const pair = await simulatedPair(device);
      device.raiseAsyncEvent(AsyncEvent[event]);
      await until(() => heard.length > 0);
      await expectTraffic(pair);
      await expectNothingLeft(device, pair);
    });

    test('that is removed takes no listener with it that belongs to no device', async () => {
      resetForTest(device, personality);
      const [server, client] = [
        transportForTest(simulatedSetUp(device)),
        transportForTest(simulatedSetUp(device)),
      ];
      const everywhere = await server.listen({ host: '0.0.0.0', port: 0 });
      const here = await server.listen({ host: '127.0.0.1', port: 0 });
      const { port } = everywhere.address as { port: number };
      const connect = async (): Promise<Pick<Pair, 'client' | 'server'>> => {
        const accepted = nextConnection(everywhere);
        return { client: await client.connect({ host: '127.0.0.1', port }), server: await accepted };
      };
      const before = await connect();
      device.remove();
      expect(await codeAtEnd(before.client)).toBe('ERR_VERBMQ_CONNECTION_LOST');
      expect(await codeAtEnd(before.server)).toBe('ERR_VERBMQ_CONNECTION_LOST');
      await here.closed;
      // librdmacm has closed the device, and everything that stood on it was given back before.
      await until(
        () => device.live('qp') + device.live('cq') + device.live('pd') + device.live('comp-channel') === 0,
      );
      device.restore();
      await expectTraffic(await connect());
      await Promise.all([client.close(), server.close()]);
      await until(() => Object.keys(device.leftOver()).length === 0);
    });

    test('tells every thread that uses it', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const library = device.libraries.ibverbs;
      const worker = new Worker(talker, { workerData: ['until-lost', '127.0.0.1', library] });
      const said: unknown[] = [];
      worker.on('message', (message) => said.push(message));
      const exited = new Promise((resolve) => worker.once('exit', resolve));
      await until(() => said.length > 0);
      device.raiseAsyncEvent(AsyncEvent.deviceFatal);
      for (const each of [pair.client, pair.server]) {
        expect(await codeAtEnd(each)).toBe('ERR_VERBMQ_CONNECTION_LOST');
      }
      await exited;
      expect(said).toEqual(['talking', 'ERR_VERBMQ_CONNECTION_LOST', 'ERR_VERBMQ_CONNECTION_LOST']);
      await expectNothingLeft(device, pair);
    });
  });
});
