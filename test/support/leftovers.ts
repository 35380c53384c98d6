import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'vitest';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** More than the collector's own ways let it differ, and less than a hundred thousand of anything. */
const MOST_BYTES = 4 * 1024 * 1024;

/** What vitest remembers of every expectation would outweigh what is looked for. */
export function expectSame(actual: unknown, expected: unknown): void {
  if (actual !== expected) expect(actual).toBe(expected);
}

export interface InUse {
  readonly memory: NodeJS.MemoryUsage;
  /** What holds this process, timers too, by its kind. */
  readonly handles: Readonly<Record<string, number>>;
}

/** What this process uses when nothing is left that could be collected. */
export function inUse(): InUse {
  // What a first collection finds out of use may let go of buffers, which the second one finds.
  for (let i = 0; i < 2; i++) collectGarbage();
  const handles: Record<string, number> = {};
  for (const name of process.getActiveResourcesInfo()) handles[name] = (handles[name] ?? 0) + 1;
  return { memory: process.memoryUsage(), handles };
}

/** No handle, no timer and no memory has come to what was in use `before`, and nobody listens to the signals. */
export function expectNothingMore(before: InUse, ...signals: AbortSignal[]): void {
  expectNoMore(before, inUse());
  for (const signal of signals) expect(getEventListeners(signal, 'abort')).toEqual([]);
}

/** The same of what was in use `after`. */
export function expectNoMore(before: InUse, { memory, handles }: InUse): void {
  const more = Object.entries(handles).filter(([name, count]) => count > (before.handles[name] ?? 0));
  expect(more).toEqual([]);
  for (const what of ['heapUsed', 'external', 'arrayBuffers'] as const)
    expect(memory[what] - before.memory[what], what).toBeLessThan(MOST_BYTES);
}
