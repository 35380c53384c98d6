import { expect, test } from 'vitest';
import { SlotViews } from '../src/slot-views.js';

test('a slot is shown anew only when its message has another length', () => {
  const slab = new ArrayBuffer(256);
  const views = new SlotViews(slab, 2);
  const first = views.of(0, 16, 64);
  expect([first.buffer, first.byteOffset, first.length]).toEqual([slab, 16, 64]);
  new Uint8Array(slab)[16] = 7;
  expect(views.of(0, 16, 64)).toBe(first);
  expect(first[0]).toBe(7);

  const shorter = views.of(0, 16, 10);
  expect([shorter.byteOffset, shorter.length]).toEqual([16, 10]);
  expect(first).toHaveLength(64);
  expect(views.of(1, 128, 10).byteOffset).toBe(128);
  expect(views.of(1, 128, 0)).toHaveLength(0);
});
