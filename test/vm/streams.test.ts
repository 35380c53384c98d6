import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EndMarkFilter } from './end-mark.mjs';
import { LinePrefix } from './line-prefix.mjs';

/** The bytes in pieces of the given sizes, the sizes used again and again. */
function* pieces(bytes: Buffer, sizes: number[]) {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

/** Sizes of pieces, and text of few letters, so that beginnings of the mark occur by themselves. */
const anySizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 });
const anyText = fc.string({ unit: fc.constantFrom('a', 'b', '\n') });

test('the end mark is taken out, however the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(anyText, anySizes, async (text, sizes) => {
      const mark = 'aabaaX';
      const filter = new EndMarkFilter(mark);
      const passed = await buffer(Readable.from(pieces(Buffer.from(text + mark), sizes)).pipe(filter));
      expect(passed.toString()).toBe(text);
      expect(filter.complete).toBe(true);
    }),
  );
});

test('a stream without its end mark passes in full, and is known to be incomplete', async () => {
  await fc.assert(
    fc.asyncProperty(anyText, anySizes, async (text, sizes) => {
      const filter = new EndMarkFilter('aabaaX');
      const passed = await buffer(Readable.from(pieces(Buffer.from(text), sizes)).pipe(filter));
      expect(passed.toString()).toBe(text);
      expect(filter.complete).toBe(false);
    }),
  );
});

test('each line gets its prefix, also the last one without an end', async () => {
  await fc.assert(
    fc.asyncProperty(anyText, anySizes, async (text, sizes) => {
      const passed = await buffer(
        Readable.from(pieces(Buffer.from(text), sizes)).pipe(new LinePrefix('[x] ')),
      );
      const lines = text.split('\n');
      const rest = lines.pop();
      const expected = [...lines, ...(rest ? [rest] : [])].map((line) => `[x] ${line}\n`).join('');
      expect(passed.toString()).toBe(expected);
    }),
  );
});
