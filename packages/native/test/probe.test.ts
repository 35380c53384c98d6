import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import type { Addon, NativeDevice } from '../src/binding.js';
import { buildCommand, load } from '../src/load-addon.js';
import { probeRdma } from '../src/probe.js';

const packageDirectory = dirname(dirname(fileURLToPath(import.meta.url)));
const machineHasDevices = existsSync('/sys/class/infiniband');

const device: NativeDevice = {
  name: 'mlx5_0',
  transport: 'RoCE',
  firmware: '1.0',
  ports: [{ number: 1, state: 'active', linkLayer: 'Ethernet', activeMtuBytes: 4096 }],
  maxQueuePairs: 1,
  maxWorkRequests: 1,
  maxPieces: 1,
  maxCompletionEntries: 1,
  maxMemoryRegions: 1,
  maxSharedReceiveQueues: 1,
  maxSharedReceives: 1,
  maxReadsAsResponder: 1,
  maxReadsAsInitiator: 1,
  atomics: 'none',
};

/** An addon that answers as told. */
function saying(probe: Addon['probe']): { addon: Addon } {
  return { addon: { probe, layout: { controlReceiveSlots: 8, controlAreaBytes: 4096 } } as unknown as Addon };
}

function answering(devices: NativeDevice[]): { addon: Addon } {
  return saying((_, answered) => setImmediate(() => answered(undefined, devices)));
}

function failing(reason: string): { addon: Addon } {
  const error = Object.assign(new Error(`words about ${reason}`), { reason });
  return saying((_, answered) => setImmediate(() => answered(error, undefined)));
}

describe('probeRdma', () => {
  test('is available when a device has an active port', async () => {
    expect(await probeRdma({ loaded: answering([device]) })).toEqual({
      available: true,
      details: { devices: [device] },
    });
  });

  test('is available when only some devices have a problem', async () => {
    const broken = { ...device, problem: { reason: 'no-permission', message: 'EACCES' } };
    expect(await probeRdma({ loaded: answering([broken, device]) })).toMatchObject({ available: true });
  });

  test.each(['library-missing', 'module-missing', 'no-device', 'no-permission', 'memlock', 'no-resources'])(
    'names %s, what was found, and a remedy',
    async (reason) => {
      const result = await probeRdma({ loaded: failing(reason) });
      if (result.available) throw new Error('nothing was found, so nothing is available');
      expect(result.code).toBe(reason);
      expect(result.reason).toBe(`words about ${reason}`);
      expect(result.remedy).not.toBe('');
    },
  );

  test.each(['no-permission', 'memlock'])('names %s of the only device', async (reason) => {
    const broken = { ...device, problem: { reason, message: 'it failed' } };
    expect(await probeRdma({ loaded: answering([broken]) })).toMatchObject({
      available: false,
      code: reason,
      reason: 'mlx5_0: it failed',
    });
  });

  test('says when no port is active', async () => {
    const [port] = device.ports;
    const down = { ...device, ports: [{ ...port!, state: 'down' }] };
    expect(await probeRdma({ loaded: answering([down]) })).toMatchObject({
      available: false,
      code: 'no-active-port',
    });
  });

  test('names the library that the loader did not find', async () => {
    const result = await probeRdma({ libraries: { ibverbs: '/nowhere/libibverbs.so.1' } });
    expect(result).toMatchObject({ available: false, code: 'library-missing' });
    expect(result).toHaveProperty('reason', expect.stringContaining('/nowhere/libibverbs.so.1'));
    expect(result).toHaveProperty('remedy', expect.stringContaining('apt-get install libibverbs1'));
  });

  test('names the symbol that a library does not have', async () => {
    const result = await probeRdma({ libraries: { ibverbs: 'libm.so.6' } });
    expect(result).toMatchObject({ available: false, code: 'library-missing' });
    expect(result).toHaveProperty('reason', expect.stringContaining('ibv_get_device_list'));
  });

  test.skipIf(machineHasDevices)('finds no device on a machine that has none', async () => {
    expect(await probeRdma()).toMatchObject({ available: false, code: 'no-device' });
  });
});

describe('without the addon', () => {
  const directory = 'build-of-a-test';
  afterEach(() => rmSync(join(packageDirectory, directory), { recursive: true, force: true }));

  test('says why it was not built, and what to install', async () => {
    mkdirSync(join(packageDirectory, directory), { recursive: true });
    const record = { built: false, reason: 'make is missing', remedy: 'apt-get install make' };
    writeFileSync(join(packageDirectory, directory, 'verbmq-build.json'), JSON.stringify(record));
    const result = await probeRdma({ loaded: load(directory) });
    expect(result).toMatchObject({ available: false, code: 'addon-missing' });
    expect(result).toHaveProperty('reason', expect.stringContaining('make is missing'));
    expect(result).toHaveProperty('remedy', 'apt-get install make, then `npm run bootstrap`');
  });

  test('says how to build it when nobody has tried', async () => {
    const result = await probeRdma({ loaded: load(directory) });
    expect(result).toMatchObject({ available: false, code: 'addon-missing' });
    expect(result).toHaveProperty('remedy', expect.stringContaining('`npm run bootstrap`'));
  });

  test('names the command that works where the package is', () => {
    expect(buildCommand('/home/me/shop/node_modules/@verbmq/native')).toBe('npm rebuild @verbmq/native');
    expect(buildCommand('/home/me/verbmq/packages/native')).toBe('npm run bootstrap');
  });
});

test('the install step says why it cannot build, and does not fail the installation', async () => {
  // The record of the real build must survive, so the step runs as if another compiler had been asked for, and
  // for the other output directory, which is restored by the next build with sanitizers.
  const output = execFileSync(
    process.execPath,
    [join(packageDirectory, 'scripts', 'install.mjs'), '--output', 'build-of-a-test'],
    { env: { ...process.env, CXX: '/nowhere/g++' }, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
  );
  expect(output).toBe('');
  const result = await probeRdma({ loaded: load('build-of-a-test') });
  rmSync(join(packageDirectory, 'build-of-a-test'), { recursive: true, force: true });
  expect(result).toMatchObject({ available: false, code: 'addon-missing' });
  expect(result).toHaveProperty(
    'reason',
    expect.stringContaining('a C++ compiler (/nowhere/g++) is missing'),
  );
});
