// That large memory is registered on huge pages where the kernel gives them to those who ask, and on small ones where it does not.
import { writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, type TestContext, test } from 'vitest';
import { connectPair, type Pair } from '../support/pair.js';
import { inGuest } from '../support/set-up.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { HUGE_PAGES, hugeBytes, hugePageSetting } from './huge-memory.js';

/** Above 32 MiB the C library maps memory anew each time; what was used before keeps the pages that it has. */
const BYTES = 64 * 1024 * 1024;
const setUp = rdmaSetUp(rdmaAddresses());

/** The setting is the whole machine's: it is changed in the guest alone. */
function give(context: TestContext, wanted: 'madvise' | 'never'): void {
  const before = hugePageSetting();
  if (before === wanted) return;
  if (before === undefined) {
    context.skip('this kernel has no huge pages');
  } else if (inGuest) {
    writeFileSync(HUGE_PAGES, wanted);
    onTestFinished(() => writeFileSync(HUGE_PAGES, before));
  } else {
    context.skip(`${HUGE_PAGES} says ${before}, not ${wanted}`);
  }
}

describe.each([
  ['exposed memory', async ({ server }: Pair) => (await server.expose(BYTES, { read: true })).data],
  ['a buffer for a message', async ({ client }: Pair) => (await client.allocate(BYTES)).data],
])('%s', (_, take) => {
  test.for(['madvise', 'never'] as const)('where the setting is %s', async (setting, context) => {
    give(context, setting);
    const pair = await connectPair(setUp, { both: { maxMessageBytes: BYTES } });
    const before = hugeBytes();
    const memory = await take(pair);
    const huge = hugeBytes() - before;
    expect(memory.byteLength).toBe(BYTES);
    // The first and the last huge page are not all of it.
    if (setting === 'madvise') expect(huge).toBeGreaterThan(BYTES / 2);
    else expect(huge).toBeLessThanOrEqual(0);
  });
});
