import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll } from 'vitest';

const run = promisify(execFile);
/** A run of Node under a sanitizer loads that into every child. */
const { LD_PRELOAD, ...env } = process.env;

/**
 * Compiles a program of its own that uses the engine's code, before the tests of a `describe`. Answers what runs it with these arguments,
 * and gives what it prints.
 */
export function engineProgram(source: string): (...programArguments: unknown[]) => Promise<string> {
  let folder: string;
  const program = (): string => path.join(folder, 'program');

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'verbmq-engine-'));
    const file = fileURLToPath(new URL(source, import.meta.url));
    const headers = fileURLToPath(new URL('../../packages/native/cpp', import.meta.url));
    const flags = ['-std=c++17', '-O2', '-Wall', '-Wextra', '-Werror', `-I${headers}`];
    await run('g++', [...flags, file, '-o', program()], { env });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  return async (...programArguments) => (await run(program(), programArguments.map(String), { env })).stdout;
}
