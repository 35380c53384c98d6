// Calls of drivers run on threads of their own. Where the system has none left they run all the same.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';

const run = promisify(execFile);
const fileOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
/** The compiler is no part of the test. Under a sanitizer that comes first, and asks this library for threads. */
const { LD_PRELOAD = '', ...env } = process.env;

/** Compiles what refuses threads, for one test. */
async function refusing(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'verbmq-threads-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const library = path.join(folder, 'refusing.so');
  const flags = ['-std=c++17', '-O1', '-fPIC', '-shared', '-Wall', '-Wextra', '-Werror'];
  await run('g++', [...flags, fileOf('threads/refusing.cc'), '-o', library, '-ldl'], { env });
  return library;
}

await onSimulatedDevice('siw', (device) => {
  test('a process that has no more threads connects, closes and probes, on those that it has', async () => {
    const preload = `${LD_PRELOAD} ${await refusing()}`.trim();
    const parameters = [fileOf('children/threadless.mjs'), device.libraries.ibverbs, device.control];
    const { stdout, stderr } = await run(process.execPath, parameters, {
      env: { ...env, LD_PRELOAD: preload },
      timeout: 30_000,
    });
    expect(stdout.split('\n')).toEqual([
      'connected',
      'closed',
      'probed',
      'in line: 1',
      'connected: 2',
      'over',
      '',
    ]);
    // For the attempt, the ends of both sides, the probe, and the second attempt.
    expect(stderr.split('a thread was refused').length - 1).toBeGreaterThanOrEqual(5);
  });
});
