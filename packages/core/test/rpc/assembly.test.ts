import { constants } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { inUse } from '../../../../test/support/leftovers.js';
import { Assembly, AssemblyBudget } from '../../dist/rpc/assembly.js';

const MIB = 1024 * 1024;

/** Keeps bodies of 40 MiB in all, in pieces as they come from a socket, lets them go, and says what memory the process had then and has now. */
const PROGRAM = `
  import { setImmediate } from 'node:timers/promises';
  import { Assembly, AssemblyBudget } from ${JSON.stringify(new URL('../../dist/rpc/assembly.js', import.meta.url).href)};
  const budget = new AssemblyBudget(${MIB});
  const piece = new Uint8Array(${MIB / 4}).fill(7);
  await setImmediate();
  const kept = [];
  for (let n = 0; n < 40; n++) {
    const assembly = new Assembly(budget, ${MIB}, true);
    for (let i = 0; i < 3; i++) assembly.add(piece);
    kept.push(assembly.add(piece));
  }
  const before = process.memoryUsage.rss();
  kept.length = 0;
  do {
    gc();
    await setImmediate();
  } while (process.memoryUsage().arrayBuffers > ${4 * MIB});
  console.log(before - process.memoryUsage.rss());
`;

describe('a body that arrives in pieces', () => {
  test('leaves its memory to those that follow, when it was let go', (context) => {
    const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
    if (header.glibcVersionRuntime === undefined) context.skip('this is about glibc');
    const args = ['--expose-gc', '--input-type=module', '--eval', PROGRAM];
    const givenBack = Number(execFileSync(process.execPath, args, { encoding: 'utf8' }));
    expect(givenBack).toBeLessThan(8 * MIB);
  });

  test('leaves no garbage behind as it grows', () => {
    const budget = new AssemblyBudget(32 * MIB);
    const assembly = new Assembly(budget, 32 * MIB, true);
    const piece = new Uint8Array(MIB);
    const before = inUse().memory.arrayBuffers;
    for (let i = 0; i < 31; i++) assembly.add(piece);
    expect(budget.bytes).toBe(32 * MIB);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThanOrEqual(31 * MIB);
    expect(assembly.add(piece)?.byteLength).toBe(32 * MIB);
    expect(budget.bytes).toBe(0);
  });

  test('counts for nothing more where memory for it cannot be had', () => {
    const budget = new AssemblyBudget(4 * constants.MAX_LENGTH);
    const assembly = new Assembly(budget, 3 * constants.MAX_LENGTH, true);
    const before = budget.bytes;
    const endless = { byteLength: constants.MAX_LENGTH + 1 } as Uint8Array;
    expect(() => assembly.add(endless)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }));
    expect(budget.bytes).toBe(before);
    assembly.release();
    expect(budget.bytes).toBe(0);
  });
});
