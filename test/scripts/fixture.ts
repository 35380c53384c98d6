import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';

/**
 * A tree of files in a directory of its own, which is removed when the test has finished.
 * @param files texts by their paths
 * @returns the directory
 */
export function makeTree(files: Readonly<Record<string, string>>): string {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-tree-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  return directory;
}
