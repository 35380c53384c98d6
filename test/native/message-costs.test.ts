// What a message costs beside its bytes, counted in a process that does nothing else: no call into the addon and no memory.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { build, obstacle } from '../simulated-verbs/build.mjs';
import { ALL_PERSONALITIES, type Personality } from '../support/simulated-device.js';
import type { Costs } from './costs/counters.mjs';

const run = promisify(execFile);
/** It is counted in the build that users get: a sanitizer has allocators of its own. */
const { LD_PRELOAD, VERBMQ_ADDON, ...env } = process.env;
const missing = await obstacle();

interface Report {
  readonly messages: number;
  readonly report: Record<string, Costs>;
}

describe.skipIf(missing !== undefined)(`what messages cost${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let folder: string;
  let counter: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'verbmq-costs-'));
    counter = path.join(folder, 'allocations.so');
    const source = fileURLToPath(new URL('costs/allocations.cc', import.meta.url));
    const flags = ['-std=c++17', '-O2', '-fPIC', '-shared', '-fno-builtin', '-Wall', '-Wextra', '-Werror'];
    await run('g++', [...flags, source, '-o', counter], { env });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function costsOn(personality: Personality): Promise<Report> {
    const { library, control } = await build({ sanitizer: 'none' });
    const counts = path.join(folder, `counts-${personality}`);
    await writeFile(counts, new Uint8Array(24));
    const program = fileURLToPath(new URL('costs/messages.mjs', import.meta.url));
    const { stdout } = await run(process.execPath, [program, library, control, personality], {
      env: { ...env, LD_PRELOAD: counter, VERBMQ_ALLOCATIONS: counts },
    });
    return JSON.parse(stdout) as Report;
  }

  test.each<Personality>(ALL_PERSONALITIES)(
    'on a device like %s',
    { timeout: 120_000 },
    async (personality) => {
      const { messages, report } = await costsOn(personality);
      const { everything, ...kinds } = report;
      // The counters count: connections are made by calls, and of memory.
      expect(everything?.calls).toBeGreaterThan(10);
      expect(everything?.allocations).toBeGreaterThan(100);
      expect(Object.keys(kinds).length).toBe(6);
      for (const [kind, { calls, deliveries, allocations, bufferBytes }] of Object.entries(kinds)) {
        expect(deliveries, kind).toBeGreaterThan(0);
        // The first message of all is sent from outside of a handler.
        expect(calls, kind).toBeLessThanOrEqual(1);
        // Not one for each, nor for every hundred.
        expect(allocations, kind).toBeLessThan(messages / 100);
        expect(bufferBytes, kind).toBeLessThanOrEqual(0);
      }
    },
  );
});
