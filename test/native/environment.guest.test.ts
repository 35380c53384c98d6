import { execFile } from 'node:child_process';
import { chmodSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ProbeResult } from '@verbmq/core';
import { probeRdma } from '@verbmq/native';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';

const NOBODY = 65534;

/** Probes as an ordinary user, who has neither rights to all files nor to lock any memory, under `limit`. */
async function probeAsNobody(limit: string): Promise<ProbeResult> {
  const source =
    "import { probeRdma } from '@verbmq/native'; process.stdout.write(JSON.stringify(await probeRdma()));";
  const command = 'ulimit -l "$1" && exec "$2" --input-type=module -e "$3"';
  const { stdout } = await promisify(execFile)(
    '/bin/sh',
    ['-c', command, 'sh', limit, process.execPath, source],
    {
      cwd: import.meta.dirname,
      uid: NOBODY,
      gid: NOBODY,
    },
  );
  return JSON.parse(stdout) as ProbeResult;
}

/** Lets only root use a device file until the test is over. */
function forbid(file: string): void {
  const { mode } = statSync(file);
  chmodSync(file, 0o600);
  onTestFinished(() => chmodSync(file, mode));
}

function permit(file: string): void {
  const { mode } = statSync(file);
  chmodSync(file, 0o666);
  onTestFinished(() => chmodSync(file, mode));
}

const files = '/dev/infiniband';
const managerFile = `${files}/rdma_cm`;
let deviceFile: string;

beforeAll(() => {
  deviceFile = `${files}/${readdirSync(files).find((name) => name.startsWith('uverbs'))}`;
});

// The checkout may lie where only its owner may go, as in root's home directory. What is changed here lasts as long as the guest.
beforeAll(() => {
  for (let folder = import.meta.dirname; folder !== '/'; folder = path.dirname(folder)) {
    chmodSync(folder, statSync(folder).mode | 0o055);
  }
});

test('probe tells the device, its port and its limits', async () => {
  const transport = process.env.VERBMQ_GUEST_DRIVER === 'siw' ? 'iWARP' : 'RoCE';
  const result = await probeRdma();
  if (!result.available) throw new Error(result.reason);
  const [device] = result.details.devices;
  expect(result.details.devices).toHaveLength(1);
  expect(device).toMatchObject({
    name: expect.stringMatching(/rxe|siw/),
    transport,
    ports: [{ number: 1, state: expect.stringMatching(/^active/), linkLayer: 'Ethernet' }],
  });
  expect(device?.ports[0]?.activeMtuBytes).toBeGreaterThanOrEqual(256);
  for (const limit of [
    'maxQueuePairs',
    'maxWorkRequests',
    'maxPieces',
    'maxCompletionEntries',
    'maxMemoryRegions',
  ] as const)
    expect(device?.[limit], limit).toBeGreaterThan(0);
  expect(device?.maxReadsAsResponder).toBeGreaterThan(0);
  expect(device?.problem).toBeUndefined();
});

describe('probe by an ordinary user', () => {
  test('finds RDMA where the limit of locked memory and the files allow it', async () => {
    permit(deviceFile);
    permit(managerFile);
    expect(await probeAsNobody('unlimited')).toMatchObject({ available: true });
  });

  test('names a limit of locked memory that is too small', async () => {
    permit(deviceFile);
    permit(managerFile);
    const result = await probeAsNobody('64');
    expect(result).toMatchObject({ available: false, code: 'memlock' });
    expect(result).toHaveProperty('reason', expect.stringContaining('64 KiB'));
    expect(result).toHaveProperty('remedy', expect.stringContaining('ulimit -l unlimited'));
  });

  test('names a device file that it may not open', async () => {
    forbid(deviceFile);
    permit(managerFile);
    const result = await probeAsNobody('unlimited');
    expect(result).toMatchObject({ available: false, code: 'no-permission' });
    expect(result).toHaveProperty('reason', expect.stringContaining(deviceFile));
    expect(result).toHaveProperty('remedy', expect.stringContaining('/dev/infiniband/uverbs'));
  });

  test('names the connection manager when it may not open that', async () => {
    permit(deviceFile);
    forbid(managerFile);
    const result = await probeAsNobody('unlimited');
    expect(result).toMatchObject({ available: false, code: 'no-permission' });
    expect(result).toHaveProperty('reason', expect.stringContaining(managerFile));
  });
});
