import { MsgpackCodec } from '@verbmq/core/codec';
import { Packr } from 'msgpackr';
import { expect, test } from 'vitest';

// All packers of a process write into one buffer; a program may have packers of its own.
test('what other packers of the process have packed stays as it is', () => {
  const codec = new MsgpackCodec();
  const other = new Packr({ useRecords: false });
  const kept: Uint8Array[] = [];
  const copies: Uint8Array[] = [];
  const keep = (): void => {
    const packed = other.pack({ number: kept.length, text: 'x'.repeat(kept.length) });
    kept.push(packed);
    copies.push(Uint8Array.from(packed));
  };
  const lease = Buffer.alloc(8192);
  for (let i = 0; i < 200; i++) {
    keep();
    codec.encode({ i }, 10);
    keep();
    codec.encodeInto({ i }, lease, 10);
    keep();
    if (i % 10 === 0) codec.encode('y'.repeat(100_000), 10);
    expect(() => codec.encode(Symbol('refused'), 10)).toThrow();
  }
  expect(kept.every((bytes, i) => Buffer.compare(bytes, copies[i] as Uint8Array) === 0)).toBe(true);
});
