import { expect, test } from 'vitest';
import { hugeBytes, hugePageSetting } from '../../../test/native/huge-memory.js';
import type { Addon } from '../src/binding.js';
import { loadAddon } from '../src/load-addon.js';
import { allocatePages } from '../src/whole-pages.js';

const MIB = 1024 * 1024;
const addon = loadAddon().addon as Addon;

test.each([1, 4096, 3 * MIB + 5])('%i bytes start at a page and are zeroed', (bytes) => {
  const { memory, start } = allocatePages(addon, bytes);
  expect(addon.offsetOfPage(memory)).toBe(start);
  expect(memory.byteLength - start).toBeGreaterThanOrEqual(bytes);
  expect(new Uint8Array(memory).every((byte) => byte === 0)).toBe(true);
});

test('large memory is on huge pages where the kernel has them', (context) => {
  const setting = hugePageSetting();
  if (setting !== 'madvise' && setting !== 'always') {
    context.skip(`the kernel gives no huge pages: ${setting ?? 'it has none'}`);
  }
  const before = hugeBytes();
  // Above 32 MiB the C library maps memory anew, whatever was freed before.
  const { memory } = allocatePages(addon, 64 * MIB);
  new Uint8Array(memory).fill(1);
  expect(hugeBytes() - before).toBeGreaterThan(32 * MIB);
});

test('memory that cannot be had is an error of its own', () => {
  expect(() => allocatePages(addon, Number.MAX_SAFE_INTEGER - 8192)).toThrow(
    expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }),
  );
});
