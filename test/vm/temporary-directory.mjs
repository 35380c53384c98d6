import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Sockets and files of a run. The guest sees them too, through the shared root.
 * @returns {string} a new private directory, removed when this process exits
 */
export function temporaryDirectory() {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-guest-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
