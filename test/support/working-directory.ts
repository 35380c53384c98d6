import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';

/** Lets the tests of a file run in a directory of their own, with these files in it, as a program does that looks for them where it is started. */
export function workAmong(files: Readonly<Record<string, string | Uint8Array>>): void {
  const before = process.cwd();
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-files-'));
  beforeAll(() => {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
    process.chdir(directory);
  });
  afterAll(() => {
    process.chdir(before);
    rmSync(directory, { recursive: true });
  });
}
