import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** From now on, until what it answers is called, libuv's threads wait, and with them every question to the resolver. */
export function occupyThreads(): () => Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-'));
  const pipe = join(directory, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const threads = Number(process.env.UV_THREADPOOL_SIZE ?? 4);
  const openings = Array.from({ length: threads }, () => open(pipe, 'r'));
  return async () => {
    const writer = openSync(pipe, 'r+');
    for (const reader of await Promise.all(openings)) await reader.close();
    closeSync(writer);
    rmSync(directory, { recursive: true });
  };
}
