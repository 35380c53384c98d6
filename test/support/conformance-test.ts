import { test } from 'vitest';
import type { SetUp } from './set-up.js';

type Body = () => unknown;
type Declare = (title: string, body: Body, timeoutMs?: number) => void;

/** `test` where the set-up has what it needs; else a skip that says in its title what is missing. */
export function testNeeding(
  need: 'oneSided' | 'atomics' | 'largeMessages' | 'processes',
  setUp: SetUp,
): Declare {
  if (need === 'processes') {
    if (setUp.crossesProcesses) return declare;
    return skipping('both ends live in one process');
  }
  if (setUp.capabilities[need] !== 'none') return declare;
  return skipping(`capability ${need} is none`);
}

function declare(title: string, body: Body, timeoutMs?: number): void {
  test(title, { ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }) }, async () => {
    await body();
  });
}

function skipping(reason: string): Declare {
  return (title) => test.skip(`${title} (skipped: ${reason})`, () => {});
}
