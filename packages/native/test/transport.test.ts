import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { VerbmqError } from '@verbmq/core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { occupyThreads } from '../../../test/support/occupied-threads.js';
import type { RdmaTransportOptions } from '../src/index.js';
import { RdmaTransport } from '../src/index.js';

const machineHasDevices = existsSync('/sys/class/infiniband');

async function failureOf(operation: Promise<unknown>): Promise<VerbmqError> {
  const error = await operation.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof VerbmqError)) throw new Error(`this is no VerbmqError: ${String(error)}`);
  return error;
}

describe('options', () => {
  test.each<[string, RdmaTransportOptions]>([
    ['slotBytes', { slotBytes: 100 }],
    ['slotBytes', { slotBytes: 1000 }],
    ['receiveSlots', { receiveSlots: 0 }],
    ['sendSlots', { sendSlots: 5000 }],
    ['spinMicros', { spinMicros: -1 }],
    ['backlog', { backlog: 0.5 }],
  ])('%s out of range is a RangeError that names it', (name, options) => {
    expect(() => new RdmaTransport(options)).toThrow(RangeError);
    expect(() => new RdmaTransport(options)).toThrow(name);
  });

  test('an unknown way of polling is a TypeError', () => {
    expect(() => new RdmaTransport({ polling: 'often' as 'busy' })).toThrow(TypeError);
  });
});

describe('while the resolver looks for the host', () => {
  test('connect takes no longer than it may, can be cancelled, and does not hold up close', async () => {
    onTestFinished(occupyThreads());
    const transport = new RdmaTransport();
    const late = failureOf(transport.connect('rdma://localhost:1', { timeoutMs: 20 }));
    expect(await late).toMatchObject({ code: 'ERR_VERBMQ_CONNECT_TIMEOUT' });
    const controller = new AbortController();
    const cancelled = failureOf(transport.connect('rdma://localhost:1', { signal: controller.signal }));
    controller.abort();
    expect(await cancelled).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
    const closed = failureOf(transport.connect('rdma://localhost:1'));
    await transport.close();
    expect(await closed).toMatchObject({ code: 'ERR_VERBMQ_CLOSED' });
  });

  test('listen does not outlive its transport', async () => {
    onTestFinished(occupyThreads());
    const transport = new RdmaTransport();
    const listening = failureOf(transport.listen('rdma://localhost:0'));
    await transport.close();
    expect(await listening).toMatchObject({ code: 'ERR_VERBMQ_CLOSED' });
  });
});

describe('without an RDMA device', () => {
  test('a transport can be made, probed and closed', async () => {
    const transport = new RdmaTransport({ libraries: { ibverbs: '/nowhere/libibverbs.so.1' } });
    expect(await transport.probe()).toMatchObject({ available: false, code: 'library-missing' });
    await transport.close();
  });

  test('listen and connect name the cause and the remedy', async () => {
    const transport = new RdmaTransport({ libraries: { rdmacm: '/nowhere/librdmacm.so.1' } });
    for (const operation of [
      transport.listen('rdma://127.0.0.1:0'),
      transport.connect('rdma://127.0.0.1:1'),
    ]) {
      const error = await failureOf(operation);
      expect(error.code).toBe('ERR_VERBMQ_UNAVAILABLE');
      expect(error.reason).toBe('library-missing');
      expect(error.message).toContain('/nowhere/librdmacm.so.1');
      expect(error.message).toContain('apt-get install');
    }
    await transport.close();
  });

  test.skipIf(machineHasDevices)('the machine itself is the cause where it has none', async () => {
    const transport = new RdmaTransport();
    const error = await failureOf(transport.connect('rdma://127.0.0.1:1'));
    expect(error.code).toBe('ERR_VERBMQ_UNAVAILABLE');
    expect(error.reason).toBe('no-device');
    await transport.close();
  });

  test('a path is not an address of RDMA', async () => {
    const transport = new RdmaTransport();
    expect((await failureOf(transport.connect({ path: '/run/a.sock' }))).code).toBe(
      'ERR_VERBMQ_INVALID_ADDRESS',
    );
    await transport.close();
  });

  test('importing the package loads no RDMA library, and the process ends by itself', async () => {
    const source = `
      import { readFileSync } from 'node:fs';
      import { RdmaTransport } from '@verbmq/native';
      new RdmaTransport();
      console.log(/libibverbs|librdmacm/.test(readFileSync('/proc/self/maps', 'utf8')));
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', source], {
      cwd: import.meta.dirname,
    });
    expect(stdout.trim()).toBe('false');
  });
});
