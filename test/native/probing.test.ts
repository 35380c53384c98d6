// Probes, which open devices, and so last as long as drivers want: nothing waits for them but who has asked.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { RdmaTransport, VerbmqTransport } from 'verbmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, onFast, QUICK } from '../support/auto-pair.js';
import { isPending, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { occupyThreads } from '../support/occupied-threads.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { onSimulatedDevice, resetForTest, type SimulatedDevice } from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const run = promisify(execFile);
const child = (name: string): string => fileURLToPath(new URL(`./children/${name}.mjs`, import.meta.url));
const HOUR_US = 3_600_000_000;
const UNANSWERED = { available: false, code: 'unanswered' };

/** What a process leaves to the system when it ends in the middle of everything is no leak. */
const environment = { ...process.env, ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:detect_leaks=0` };

function resetAndOpen(device: SimulatedDevice): RdmaTransport {
  resetForTest(device, 'rxe');
  const transport = new RdmaTransport({ libraries: device.libraries });
  onTestFinished(() => transport.close());
  return transport;
}

/** From now on the driver keeps who opens the device, until the test says otherwise or is over. */
function hold(device: SimulatedDevice): () => void {
  device.set('open_blocks_us', HOUR_US);
  return () => device.set('open_blocks_us', 0);
}

await onSimulatedDevice('rxe', (device) => {
  const library = device.libraries.ibverbs;
  const isHeld = (): Promise<void> => until(() => device.calls('ibv_open_device') === 1);

  describe('while the driver holds a probe', () => {
    test('the event loop turns, and connections of the same transport carry messages', async () => {
      resetForTest(device, 'rxe');
      const pair = await simulatedPair(device);
      const release = hold(device);
      const probing = pair.clientTransport.probe();
      await isHeld();
      for (let n = 0; n < 10; n++) await pair.client.send(numbered(n));
      expect((await take(pair.server, 10)).map(numberOf)).toEqual(Array.from({ length: 10 }, (_, n) => n));
      expect(await isPending(probing)).toBe(true);
      release();
      expect(await probing).toMatchObject({ available: true });
      await expectNothingLeft(device, pair);
    });

    test('others take their turns, since each locks memory', async () => {
      const transport = resetAndOpen(device);
      const other = new RdmaTransport({ libraries: device.libraries });
      const release = hold(device);
      const probing = [transport.probe(), other.probe(), transport.probe()];
      await isHeld();
      await turns(20);
      expect(device.calls('ibv_open_device')).toBe(1);
      release();
      for (const each of probing) expect(await each).toMatchObject({ available: true });
      expect(device.calls('ibv_open_device')).toBe(3);
      expect(device.leftOver()).toEqual({});
    });

    test('close() of its transport ends the wait, and that of no other transport', async () => {
      const transport = resetAndOpen(device);
      const other = new RdmaTransport({ libraries: device.libraries });
      const release = hold(device);
      const own = [transport.probe(), transport.probe()];
      const others = other.probe();
      await isHeld();
      await transport.close();
      for (const each of own) expect(await each).toMatchObject(UNANSWERED);
      expect(await isPending(others)).toBe(true);
      release();
      expect(await others).toMatchObject({ available: true });
      expect(device.calls('ibv_open_device')).toBe(2);
      expect(await transport.probe()).toMatchObject({ available: true });
    });

    test('a verbmq:// connection is made and used, and moves to RDMA when the answer is there', async () => {
      resetForTest(device, 'rxe');
      const make = (): VerbmqTransport => {
        const transport = new VerbmqTransport({ ...QUICK, rdma: { libraries: device.libraries } });
        onTestFinished(() => transport.close());
        return transport;
      };
      const listener = await make().listen('verbmq://127.0.0.1:0');
      const accepted = nextConnection(listener);
      const release = hold(device);
      const client = asAuto(abortAfterTest(await make().connect(listener.url)));
      const server = abortAfterTest(await accepted);
      await client.send(numbered(1));
      expect((await take(server, 1)).map(numberOf)).toEqual([1]);
      expect(client.path).toMatchObject({ kind: 'tcp', reason: 'negotiating' });
      release();
      expect((await onFast(client)).kind).toBe('rdma');
    });

    test.each([
      ['terminated', 1],
      ['terminated', 3],
      ['exit', 1],
      ['give up', 3],
    ])(
      'a worker thread that has asked ends (%s, of %i probes), and what was opened is given back',
      async (how, count) => {
        resetForTest(device, 'rxe');
        const pair = await simulatedPair(device);
        const before = device.leftOver();
        const channels = device.calls('rdma_create_event_channel');
        const release = hold(device);
        const worker = new Worker(child('leaver'), { workerData: { what: 'probing', library, count } });
        await isHeld();
        const ended = once(worker, 'exit');
        if (how === 'terminated') await worker.terminate();
        else worker.postMessage(how);
        await ended;
        release();
        // The one that was held goes on to its end, and the others in line never began.
        await until(() => device.calls('rdma_create_event_channel') === channels + 1);
        await until(() => JSON.stringify(device.leftOver()) === JSON.stringify(before));
        expect(device.calls('ibv_open_device')).toBe(1);
        expect(await pair.clientTransport.probe()).toMatchObject({ available: true });
        await pair.client.send(numbered(1));
        expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);
        await expectNothingLeft(device, pair);
      },
    );
  });

  test.each([
    ['waits for the answer when it has nothing else to live for', 'probing-process', 'wait', 'available\n'],
    ['ends by process.exit()', 'probing-process', 'exit', ''],
    ['ends by itself when the transport is closed', 'probing-process', 'close', 'unanswered\n'],
    ['ends later than the worker thread that alone had the addon', 'leaving-worker', 'probing', 'ended\n'],
  ])('a process that probes %s', async (_, name, how, said) => {
    const parameters = [child(name), library, device.control, how];
    const { stdout } = await run(process.execPath, parameters, { env: environment, timeout: 30_000 });
    expect(stdout).toBe(said);
  });

  test('an answer needs none of the threads that look for files and host names', async () => {
    const transport = resetAndOpen(device);
    onTestFinished(occupyThreads());
    expect(await transport.probe()).toMatchObject({ available: true });
  });

  test.each([
    ['ibv_get_device_list', errno.ENOSYS, 'no-device', 'ib_uverbs', 'modprobe rdma_rxe'],
    ['ibv_get_device_list', errno.EACCES, 'no-permission', 'ibv_get_device_list failed', 'mode 0666'],
    ['ibv_open_device', errno.EACCES, 'no-permission', 'simulated0: ibv_open_device failed', 'mode 0666'],
    ['ibv_query_port', errno.EIO, 'verbs', 'simulated0: ibv_query_port failed', 'ibv_devinfo -v'],
    ['ibv_alloc_pd', errno.EIO, 'verbs', 'simulated0: ibv_alloc_pd failed', 'ibv_devinfo -v'],
    ['ibv_reg_mr', errno.EIO, 'verbs', 'simulated0: ibv_reg_mr failed', 'ibv_devinfo -v'],
    [
      'rdma_create_event_channel',
      errno.ENOENT,
      'module-missing',
      '/dev/infiniband/rdma_cm',
      'modprobe rdma_ucm',
    ],
  ])('%s that fails with errno %i is told as %s', async (symbol, number, code, reason, remedy) => {
    const transport = resetAndOpen(device);
    device.failCall(symbol, number, { times: -1 });
    const found = await transport.probe();
    expect(found).toMatchObject({ available: false, code });
    expect(found).toHaveProperty('reason', expect.stringContaining(reason));
    expect(found).toHaveProperty('remedy', expect.stringContaining(remedy));
    expect(device.leftOver()).toEqual({});
  });
});
