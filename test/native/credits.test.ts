// Credits cannot be lost, and two sides cannot wait for each other's: all states there are, of the engine's own code.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { obstacle } from '../simulated-verbs/build.mjs';

const run = promisify(execFile);
/** A run of Node under a sanitizer loads that into every child. */
const { LD_PRELOAD, ...env } = process.env;
const missing = await obstacle();

describe.skipIf(missing !== undefined)(
  `control credits of two sides${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let folder: string;
    let program: string;

    beforeAll(async () => {
      folder = await mkdtemp(path.join(tmpdir(), 'verbmq-credits-'));
      program = path.join(folder, 'two-sides');
      const source = fileURLToPath(new URL('credits/two-sides.cc', import.meta.url));
      const headers = fileURLToPath(new URL('../../packages/native/cpp', import.meta.url));
      const flags = ['-std=c++17', '-O2', '-Wall', '-Wextra', '-Werror', `-I${headers}`];
      await run('g++', [...flags, source, '-o', program], { env });
    });
    afterAll(() => rm(folder, { recursive: true, force: true }));

    // With slots of its own a side has eight, with shared ones four.
    test.each([
      [8, 8, 0],
      [4, 8, 0],
      [4, 8, 1],
      [4, 4, 2],
    ])('never run out for good (%i and %i slots, %i messages)', async (one, other, messages) => {
      const { stdout } = await run(program, [one, other, messages].map(String), { env });
      expect(stdout).toMatch(/^\d+ states\n$/);
    });
  },
);
