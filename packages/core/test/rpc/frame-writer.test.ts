import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader } from '../../src/rpc/frame-reader.js';
import { FrameWriter, replaceNumber } from '../../src/rpc/frame-writer.js';

test('a number gives its place to a smaller one, and what follows stays where it is', () => {
  const writer = new FrameWriter();
  const reader = new FrameReader();
  const whole = fc.oneof(fc.nat(300), fc.nat(20_000), fc.nat(2 ** 31 - 1), fc.constant(2 ** 31 - 1));
  fc.assert(
    fc.property(whole, whole, (a, b) => {
      const at = writer.start(1, 0, 7).length;
      const frame = new Uint8Array(writer.number(Math.max(a, b)).text('behind it').view());
      replaceNumber(frame, at, Math.min(a, b));
      reader.open(frame, 0, frame.length);
      expect([reader.number(), reader.text(100), reader.remaining]).toEqual([Math.min(a, b), 'behind it', 0]);
    }),
  );
});
