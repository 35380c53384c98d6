// Environments that end while calls of the driver last which they have begun: they wait for none, and what is left is ended behind them.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import type { Connection, HostAddress, Listener } from '@verbmq/core';
import type { RdmaTransport, RdmaTransportStats } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { failure, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection, transportForTest } from '../support/pair.js';
import { CmEvent, onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const run = promisify(execFile);
const child = (name: string): string => fileURLToPath(new URL(`./children/${name}.mjs`, import.meta.url));
const HOUR_US = 3_600_000_000;

/** What a process leaves to the system when it ends in the middle of everything is no leak. */
const environment = { ...process.env, ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:detect_leaks=0` };

await onSimulatedDevice('siw', (device) => {
  const library = device.libraries.ibverbs;

  const leaver = (what: string, count: number, port = 0): Worker =>
    new Worker(child('leaver'), { workerData: { what, library, host: '127.0.0.1', port, count } });

  /** Queues stay as long as anything is connected. */
  const isAsBefore = (before: ReturnType<typeof device.leftOver>): boolean =>
    (['qp', 'mr', 'cm-id', 'cm-channel'] as const).every((kind) => device.live(kind) === before[kind]);

  const portOf = ({ address }: Listener): number => (address as HostAddress).port;

  type How = 'terminated' | 'exit' | 'give up';
  async function end(worker: Worker, how: How): Promise<void> {
    const ended = once(worker, 'exit');
    if (how === 'terminated') await worker.terminate();
    else worker.postMessage(how);
    await ended;
  }

  /** More than one engine has threads for: the others are in line. */
  const MANY = 70;

  describe.each<[How, number]>([
    ['terminated', 1],
    ['terminated', MANY],
    ['exit', 1],
    ['give up', MANY],
  ])('a worker thread that ends (%s) while %i attempts to connect last', (how, attempts) => {
    test('within the call', async () => {
      resetForTest(device, 'siw');
      const pair = await simulatedPair(device);
      const before = device.leftOver();
      device.set('connect_blocks_us', HOUR_US);
      const worker = leaver('connecting', attempts, portOf(pair.listener));
      await until(
        () =>
          device.live('qp') === before.qp! + attempts &&
          device.calls('rdma_connect') > Math.min(attempts, 64),
      );
      await end(worker, how);
      expect(device.live('cm-id')).toBe(before['cm-id']! + attempts);
      expect(device.live('mr')).toBe(before.mr);
      // They come back, and find nobody.
      device.set('connect_blocks_us', 0);
      await until(() => isAsBefore(before));
      await pair.client.send(numbered(1));
      expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);
      await expectNothingLeft(device, pair);
    });

    test('while the peer does not answer', async () => {
      resetForTest(device, 'siw');
      const pair = await simulatedPair(device);
      const before = device.leftOver();
      device.set('cm_timeout_us', HOUR_US);
      device.dropCmEvents(CmEvent.connectRequest, attempts);
      const worker = leaver('connecting', attempts, portOf(pair.listener));
      await until(() => device.calls('rdma_connect') === 1 + attempts);
      await turns(100); // they have returned
      await end(worker, how);
      expect(device.live('cm-id')).toBe(before['cm-id']! + attempts);
      expect(device.live('mr')).toBe(before.mr);
      // With the listener ends what it was asked for.
      await expectNothingLeft(device, pair);
    });
  });

  describe.each<Personality>(['rxe', 'siw'])('over a device like %s', (personality) => {
    test.each([1, 12])(
      'a worker thread is terminated while the device lets go of %i connections',
      async (connections) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const before = device.leftOver();
        pair.listener.onConnection(() => {});
        const worker = leaver('closing', connections, portOf(pair.listener));
        await once(worker, 'message');
        const qps = device.live('qp');
        device.set('destroy_blocks_us', HOUR_US);
        const calls = device.calls('ibv_destroy_qp');
        worker.postMessage('abort');
        // On both sides, eight at a time.
        await until(() => device.calls('ibv_destroy_qp') - calls === 2 * Math.min(connections, 8));
        await end(worker, 'terminated');
        expect(device.live('qp')).toBe(qps);
        device.set('destroy_blocks_us', 0);
        await until(() => isAsBefore(before));
        await expectNothingLeft(device, pair);
      },
    );

    test('so is one whose connections share receive slots', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const before = device.leftOver();
      const connections = 12;
      const worker = leaver('serving', connections);
      const [port] = await once(worker, 'message');
      const connected = once(worker, 'message');
      const clients = await Promise.all(
        Array.from({ length: connections }, () => pair.clientTransport.connect({ host: '127.0.0.1', port })),
      );
      await connected;
      device.set('destroy_blocks_us', HOUR_US);
      for (const client of clients) await client.send(numbered(1));
      worker.postMessage('abort');
      await until(() => device.calls('ibv_destroy_qp') >= 8);
      await end(worker, 'terminated');
      device.set('destroy_blocks_us', 0);
      await Promise.all(clients.map((client) => client.closed));
      await until(() => isAsBefore(before));
      await expectNothingLeft(device, pair);
    });
  });

  test('an attempt that is given up while the call lasts holds none of its memory', async () => {
    resetForTest(device, 'siw');
    const pair = await simulatedPair(device);
    const before = device.leftOver();
    device.set('connect_blocks_us', HOUR_US);
    const given = new AbortController();
    const connecting = pair.clientTransport.connect(pair.listener.url, { signal: given.signal });
    await until(() => device.calls('rdma_connect') === 2);
    given.abort();
    await failure(connecting, 'ERR_VERBMQ_CANCELLED');
    expect(device.live('mr')).toBe(before.mr);
    device.set('connect_blocks_us', 0);
    await until(() => isAsBefore(before));
    await expectNothingLeft(device, pair);
  });

  test('attempts that are given up while others have all threads call nobody, and hold up nobody', async () => {
    resetForTest(device, 'siw');
    const pair = await simulatedPair(device);
    const before = device.leftOver();
    device.set('connect_blocks_us', HOUR_US);
    const given = Array.from({ length: MANY }, () => new AbortController());
    const connecting = given.map(({ signal }) =>
      failure(pair.clientTransport.connect(pair.listener.url, { signal }), 'ERR_VERBMQ_CANCELLED'),
    );
    const threads = 64; // in cpp/napi/loop_driver.h
    await until(
      () => device.live('qp') === before.qp! + MANY && device.calls('rdma_connect') === 1 + threads,
    );
    for (const attempt of given) attempt.abort();
    await Promise.all(connecting);
    device.set('connect_blocks_us', 0);
    await until(() => isAsBefore(before));
    expect(device.calls('rdma_connect')).toBe(1 + threads);
    await expectNothingLeft(device, pair);
  });

  test.each<[string, Personality, boolean]>([
    ['that is refused', 'rxe', true],
    ['that nobody answers', 'rxe', false],
    ['that nobody answers', 'siw', false],
  ])(
    'an attempt %s, over a device like %s that is slow to let go, fails in time',
    async (_, personality, refused) => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const before = device.leftOver();
      device.set('destroy_blocks_us', HOUR_US);
      const { url } = pair.listener;
      if (refused) await pair.listener.close();
      else device.dropCmEvents(CmEvent.connectRequest);
      const connecting = pair.clientTransport.connect(url, { timeoutMs: refused ? 3_600_000 : 300 });
      await failure(connecting, refused ? 'ERR_VERBMQ_CONNECT_FAILED' : 'ERR_VERBMQ_CONNECT_TIMEOUT');
      expect(device.live('qp')).toBe(before.qp! + 1);
      expect(device.live('mr')).toBe(before.mr);
      device.set('destroy_blocks_us', 0);
      await until(() => device.live('qp') === before.qp);
      await expectNothingLeft(device, pair);
    },
  );

  test('a device that is gone is asked for when the call of an attempt that was given up has come back', async () => {
    resetForTest(device, 'siw');
    device.set('decoy_devices', 1); // librdmacm closes a device only where there is another one
    const setUp = simulatedSetUp(device);
    const transport = transportForTest(setUp);
    const listener = await transport.listen(setUp.listenAddress());
    const accepted = nextConnection(listener);
    const ends = [await transport.connect(listener.url), await accepted];
    device.set('connect_blocks_us', HOUR_US);
    const given = new AbortController();
    const connecting = transport.connect(listener.url, { signal: given.signal });
    await until(() => device.calls('rdma_connect') === 2);
    given.abort();
    await failure(connecting, 'ERR_VERBMQ_CANCELLED');
    const asked = device.calls('rdma_get_devices');
    device.remove();
    await Promise.all(ends.map(({ closed }) => closed));
    await turns();
    expect(device.calls('rdma_get_devices')).toBe(asked);
    device.set('connect_blocks_us', 0);
    await until(() => device.count('closed-devices') === 1);
  });

  test('connections of which the device has yet to let go count with the memory that is registered', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device);
    const registered = (): Pick<RdmaTransportStats, 'registeredBytes' | 'registeredRegions'> => {
      const { registeredBytes, registeredRegions } = (pair.serverTransport as RdmaTransport).stats();
      return { registeredBytes, registeredRegions };
    };
    const before = registered();
    expect(before.registeredRegions).toBe(2);
    device.set('destroy_blocks_us', HOUR_US);
    pair.client.abort('enough');
    await pair.server.ending;
    expect(registered()).toEqual(before);
    device.set('destroy_blocks_us', 0);
    await pair.server.closed;
    expect(registered()).toEqual({ registeredBytes: 0, registeredRegions: 0 });
    await expectNothingLeft(device, pair);
  });

  test('peers that come and go faster than the device lets go of them are refused in time', async () => {
    resetForTest(device, 'rxe');
    for (const limit of ['max_pd', 'max_qp']) device.set(limit, 16_384);
    const setUp = simulatedSetUp(device, { slotBytes: 128, receiveSlots: 8, sendSlots: 4 });
    const transports = [transportForTest(setUp), transportForTest(setUp)] as const;
    const listener = await transports[0].listen(setUp.listenAddress());
    const servers: Connection[] = [];
    listener.onConnection((connection) => servers.push(connection));
    const most = 1024; // in src/rdma-listener.ts
    const atOnce = 32;
    device.set('destroy_blocks_us', HOUR_US);
    for (let n = 0; n < most; n += atOnce) {
      const connecting = Array.from({ length: atOnce }, () => transports[1].connect(listener.url));
      const clients = await Promise.all(connecting);
      await until(() => servers.length === n + atOnce);
      for (const client of clients) client.abort('enough');
    }
    await until(() => servers.every(({ state }) => state === 'closing'));
    await failure(transports[1].connect(listener.url), 'ERR_VERBMQ_OVERLOADED');
    expect(listener.stats()).toEqual({ accepted: most, failed: 1 });
    device.set('destroy_blocks_us', 0);
    await Promise.all(servers.map(({ closed }) => closed));
    abortAfterTest(await transports[1].connect(listener.url));
  });

  test.each([
    ['by process.exit()', 'leaving-process', 'exit', ''],
    ['by itself, when it has given up', 'leaving-process', 'give up', 'ERR_VERBMQ_CANCELLED\n'],
    ['later than the worker thread that alone had the addon', 'leaving-worker', 'connecting', 'ended\n'],
  ])('a process that calls to connect ends %s', async (_, name, how, said) => {
    const parameters = [child(name), library, device.control, how];
    const { stdout } = await run(process.execPath, parameters, { env: environment, timeout: 30_000 });
    expect(stdout).toBe(said);
  });

  test('a process outlives worker threads that are terminated within calls of the addon', async () => {
    const parameters = [child('terminator'), library, '20'];
    const { stdout } = await run(process.execPath, parameters, { env: environment, timeout: 60_000 });
    expect(stdout).toBe('outlived 20\n');
  });
});
