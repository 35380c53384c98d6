import fc from 'fast-check';
import { test } from 'vitest';

/** How long a fuzz test runs. CI takes a minute; for longer: `VERBMQ_FUZZ_SECONDS=3600 npx vitest run test/rpc/fuzz`. */
const SECONDS = Number(process.env.VERBMQ_FUZZ_SECONDS ?? 2);

/**
 * Tries `property` with anything at all for as long as was asked for. A failure tells the seed that repeats it.
 * @param share of that time, for what has less to be found
 */
export function fuzz<T>(title: string, property: fc.IAsyncProperty<T>, share = 1): void {
  const seconds = Math.ceil(SECONDS * share);
  const settings = {
    numRuns: Number.MAX_SAFE_INTEGER,
    interruptAfterTimeLimit: seconds * 1000,
    markInterruptAsFailure: false,
  };
  test(`${title} (${seconds} s)`, () => fc.assert(property, settings), (seconds + 30) * 1000);
}
