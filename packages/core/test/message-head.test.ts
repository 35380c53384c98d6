import { expect, test } from 'vitest';
import { copyHead, type MessageHead } from '../src/contract/message-head.js';

function memory(fill: (index: number) => number): MessageHead {
  const bytes = Uint8Array.from({ length: 64 }, (_, index) => fill(index));
  return { bytes, words: new Int32Array(bytes.buffer) };
}

test.each([1, 5, 15, 16, 17, 40])(
  'a header of %d bytes is copied, and nothing behind it but up to 16 bytes',
  (length) => {
    const target = memory(() => 0xff);
    copyHead(
      memory((index) => index + 1),
      length,
      target,
      8,
    );
    const copied = Array.from({ length }, (_, index) => index + 1);
    expect([...target.bytes.subarray(8, 8 + length)]).toEqual(copied);
    const others = [...target.bytes.subarray(0, 8), ...target.bytes.subarray(8 + Math.max(length, 16))];
    expect(others.every((byte) => byte === 0xff)).toBe(true);
  },
);
