import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import net, { type Socket } from 'node:net';
import path from 'node:path';

/** How long another listener may hold the lock, in milliseconds. It needs a few; one that is stopped, or hostile, is not waited for. */
const WAIT_MS = 1000;

/** How the lock was met: what holds it, and goes on, is `'held'`. `'none'`: this system has no such locks. */
export type PathLock = 'taken' | 'held' | 'none';

/**
 * Opens the socket file at `file` while no other listener does, in this process or in another one. The lock is an abstract Unix
 * socket: the kernel takes it back from a process that dies, and it leaves no file behind.
 */
export async function withPathLock<T>(file: string, open: (lock: PathLock) => Promise<T>): Promise<T> {
  const name = await lockName(file);
  const release = name === undefined ? 'none' : await take(name);
  if (typeof release === 'string') return open(release);
  try {
    return await open('taken');
  } finally {
    release();
  }
}

/** The same for each way to write the path. `undefined` where its directory is not there, or cannot be looked at. */
export async function lockName(file: string): Promise<string | undefined> {
  const directory = await stat(path.dirname(file), { bigint: true }).catch(() => undefined);
  if (directory === undefined) return undefined;
  const place = `${directory.dev} ${directory.ino} ${path.basename(file)}`;
  return `\0verbmq-listen-${createHash('sha256').update(place).digest('hex')}`;
}

async function take(name: string): Promise<(() => void) | 'held' | 'none'> {
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const waiting = new Set<Socket>();
    const lock = net.createServer((socket) => {
      waiting.add(socket);
      socket.on('error', () => {}).on('close', () => waiting.delete(socket));
    });
    const failure = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
      lock.once('error', resolve);
      // Exclusive: else the workers of a cluster would share it.
      lock.listen({ path: name, exclusive: true }, () => resolve(undefined));
    });
    if (failure === undefined) {
      return () => {
        lock.close();
        for (const socket of waiting) socket.destroy();
      };
    }
    if (failure.code !== 'EADDRINUSE') return 'none';
    const left = until - performance.now();
    if (left <= 0) return 'held';
    await released(name, left);
  }
}

/** Resolves when whoever holds the lock has let go of it, or the time is over. */
function released(name: string, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = net.connect({ path: name });
    const timer = setTimeout(() => socket.destroy(), timeoutMs);
    socket
      .on('error', () => {})
      .on('close', () => {
        clearTimeout(timer);
        resolve();
      });
    socket.resume();
  });
}
