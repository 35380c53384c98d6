import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { discardChunk } from '../src/discard-chunk.js';

const KIB = 1024;

describe('a chunk that is given back', () => {
  it('is freed at once, without a garbage collection', async () => {
    await setImmediate(); // a port closes in a turn of its own
    const before = process.memoryUsage().arrayBuffers;
    const chunks = Array.from({ length: 100 }, () => Buffer.allocUnsafeSlow(64 * KIB));
    expect(process.memoryUsage().arrayBuffers - before).toBeGreaterThanOrEqual(100 * 64 * KIB);
    for (const chunk of chunks) discardChunk(chunk);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * KIB);
    for (const chunk of chunks) expect(chunk.byteLength).toBe(0);
  });

  it('is left as it is when it is short, or only a part of its memory', () => {
    const short = Buffer.allocUnsafeSlow(1 * KIB);
    const part = Buffer.allocUnsafeSlow(64 * KIB).subarray(8);
    discardChunk(short);
    discardChunk(part);
    expect([short.byteLength, part.byteLength]).toEqual([1 * KIB, 64 * KIB - 8]);
  });
});
