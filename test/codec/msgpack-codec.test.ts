import { VerbmqError } from '@verbmq/core';
import { MAX_BORROWED_BYTES, MsgpackCodec } from '@verbmq/core/codec';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { outcomeOf } from '../support/expectations.js';
import { pattern } from '../support/messages.js';

const codec = new MsgpackCodec();

function decode(bytes: Uint8Array | number[], using = codec): unknown {
  const array = Uint8Array.from(bytes);
  return using.decode(array, 0, array.byteLength);
}

describe('what is encoded arrives', () => {
  const values: [string, unknown][] = [
    ['an object', { a: 1, b: [true, null, 'é', '𝒳'], c: { d: -1.5 } }],
    ['undefined within', { a: undefined, b: [undefined] }],
    ['a BigInt', { a: 2n ** 63n - 1n, b: -5n, c: 2n ** 64n - 1n }],
    ['a large number', 2 ** 53 + 2],
    ['a date', { a: new Date(0), b: new Date(1.5e12 + 1), c: new Date(2 ** 45) }],
    ['a long string', 'ü'.repeat(70_000)],
    ['nothing', null],
    ['a key that is no name', { '': 1, constructor: 2, toString: 3 }],
  ];
  for (const [title, value] of values) {
    test(title, () => {
      const bytes = codec.encode(value, 0);
      expect(codec.decode(bytes, 0, bytes.byteLength)).toEqual(value);
    });
  }

  test('an object with more keys than 16 bits count', () => {
    const value = Object.fromEntries(Array.from({ length: 70_000 }, (_, i) => [`k${i}`, i]));
    expect(decode(codec.encode(value, 0))).toEqual(value);
  });

  test('any JSON value, at any place of a larger buffer', () => {
    // msgpackr gives the key __proto__ another name, so that it can set no prototype; that has a test of its own.
    const jsonValue = fc.jsonValue().filter((value) => !JSON.stringify(value).includes('__proto__'));
    fc.assert(
      fc.property(jsonValue, fc.integer({ min: 0, max: 255 }), (value, reserve) => {
        const bytes = codec.encode(value, reserve);
        // msgpackr writes -0 as 0
        expect(codec.decode(bytes, reserve, bytes.byteLength)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 500 },
    );
  });

  test('binary data do not refer to the received bytes', () => {
    const bytes = Uint8Array.from(codec.encode({ a: pattern(100) }, 0));
    const { a } = codec.decode(bytes, 0, bytes.byteLength) as { a: Uint8Array };
    bytes.fill(0);
    expect(Buffer.compare(a, pattern(100))).toBe(0);
  });
});

describe('what cannot be encoded', () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  const values: [string, unknown][] = [
    ['a function', { a: () => 1 }],
    ["a plain object's own toJSON", { a: { toJSON: () => 5 } }],
    ['a symbol', [Symbol('a')]],
    ['a BigInt beyond 64 bits', 2n ** 70n],
    ['a cycle', cycle],
    [
      'a toJSON that throws',
      {
        a: new (class {
          toJSON() {
            throw new Error('not me');
          }
        })(),
      },
    ],
  ];
  for (const [title, value] of values) {
    test(`${title} is refused, and the next value is not touched by it`, async () => {
      expect(await outcomeOf(() => codec.encode(value, 3))).toBe('ERR_VERBMQ_ENCODE');
      expect(decode(codec.encode({ fine: true }, 0))).toEqual({ fine: true });
    });
  }
});

describe('what a peer may not send', () => {
  const nested = (depth: number) => [...new Array<number>(depth).fill(0x91), 0x01];
  const refused: [string, number[]][] = [
    ['nothing', []],
    ['an array of 4 billion', [0xdd, 0xff, 0xff, 0xff, 0xff, 1]],
    ['a map of 4 billion', [0xdf, 0xff, 0xff, 0xff, 0xff, 1]],
    ['a string of 4 GiB', [0xdb, 0xff, 0xff, 0xff, 0xff, 1]],
    ['binary data of 4 GiB', [0xc6, 0xff, 0xff, 0xff, 0xff, 1]],
    ['an array that ends early', [0x92, 1]],
    ['a string that ends early', [0xa5, 0x61]],
    ['a number that ends early', [0xcb, 1]],
    ['a length that ends early', [0xda, 1]],
    ['bytes behind the value', [1, 2]],
    ['deep nesting', nested(65)],
    ['very deep nesting', nested(100_000)],
    ['the byte that is never used', [0xc1]],
    ['a definition of a record', [0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 1]],
    ['a set', [0xd4, 0x73, 0, 0x91, 1]],
    ['an error', [0xd4, 0x65, 0, 0x91, 1]],
    ['a reference', [0xd6, 0x70, 0, 0, 0, 1]],
    ['bundled strings', [0xd6, 0x62, 0, 0, 0, 1]],
    ['a typed array', [0xc7, 2, 0x74, 0, 0]],
    ['a large BigInt', [0xc7, 2, 0x42, 0, 0]],
    ['an extension of 4 GiB', [0xc9, 0xff, 0xff, 0xff, 0xff, 0x78]],
    ['a map with a map for a key', [0x81, 0x80, 1]],
  ];
  for (const [title, bytes] of refused) {
    test(title, async () => {
      expect(await outcomeOf(() => decode(bytes))).toBe('ERR_VERBMQ_DECODE');
      expect(decode([0x81, 0xa1, 0x61, 1])).toEqual({ a: 1 });
    });
  }

  test('as deep and as many as the limits say, and no more', async () => {
    const small = new MsgpackCodec({ maxDepth: 3, maxElements: 5 });
    expect(decode(nested(3), small)).toEqual([[[1]]]);
    expect(await outcomeOf(() => decode(nested(4), small))).toBe('ERR_VERBMQ_DECODE');
    expect(decode([0x94, 1, 2, 3, 4], small)).toEqual([1, 2, 3, 4]);
    expect(await outcomeOf(() => decode([0x92, 0x92, 1, 2, 0x92, 3, 4], small))).toBe('ERR_VERBMQ_DECODE');
  });

  test('__proto__ changes no prototype', () => {
    const value = decode([0x81, 0xa9, ...Buffer.from('__proto__'), 0x81, 0xa1, 0x61, 1]) as object;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect('a' in value).toBe(false);
    expect('a' in {}).toBe(false);
  });

  test('any bytes give a value or the one error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        try {
          codec.decode(bytes, 0, bytes.byteLength);
        } catch (error) {
          expect(error).toBeInstanceOf(VerbmqError);
          expect((error as VerbmqError).code).toBe('ERR_VERBMQ_DECODE');
        }
      }),
      { numRuns: 3000 },
    );
  });
});

describe('memory', () => {
  test('a longer encoding stays valid, a shorter one makes room for the next', () => {
    const long = codec.encode(pattern(MAX_BORROWED_BYTES + 1), 0);
    const before = Uint8Array.from(long);
    const small = codec.encode({ a: 1 }, 0);
    const address = small.byteOffset;
    codec.encode(pattern(100), 0);
    expect(Buffer.compare(long, before)).toBe(0);
    expect(codec.encode({ a: 1 }, 0).byteOffset).toBe(address);
  });

  test('a value goes straight into a given buffer', () => {
    const target = Buffer.alloc(8192, 7);
    const end = codec.encodeInto({ a: 'direct' }, target, 10);
    expect(codec.decode(target, 10, end)).toEqual({ a: 'direct' });
    expect(target.subarray(0, 10).every((byte) => byte === 7)).toBe(true);
    const other = codec.encode({ b: 2 }, 0);
    expect(other.buffer).not.toBe(target.buffer);
    expect(codec.decode(target, 10, end)).toEqual({ a: 'direct' });
  });

  test('a value is read wherever it lies in a larger memory', () => {
    const memory = Buffer.alloc(1024 * 1024, 0xc1); // which begins no value
    for (const value of [{ text: 'short' }, { texts: Array.from({ length: 50 }, (_, i) => `text ${i} ü`) }]) {
      for (const start of [0, 100, 1000, memory.length - 16 * 1024]) {
        const end = codec.encodeInto(value, memory.subarray(start, start + 16 * 1024), 0) + start;
        expect(codec.decode(memory, start, end)).toEqual(value);
        expect(() => codec.decode(memory, start, end - 1)).toThrow(/refused/);
        memory.fill(0xc1);
      }
    }
  });

  test('a value that does not fit into the given buffer is not half written behind it', () => {
    const memory = Buffer.alloc(8192 + 100, 7);
    expect(codec.encodeInto(pattern(20_000), memory.subarray(0, 8192), 0)).toBe(-1);
    expect(memory.subarray(8192).every((byte) => byte === 7)).toBe(true);
    expect(codec.encodeInto({ a: 1 }, Buffer.alloc(100), 0)).toBe(-1);
  });

  test('an encoding within an encoding leaves both whole', () => {
    const inner: number[][] = [];
    const value = {
      before: 'b',
      a: new (class {
        toJSON() {
          inner.push([...codec.encode({ inner: pattern(MAX_BORROWED_BYTES * 2) }, 0)]);
          return 'outer';
        }
      })(),
      after: 'a',
    };
    expect(decode(codec.encode(value, 0))).toEqual({ before: 'b', a: 'outer', after: 'a' });
    expect((decode(inner[0] ?? []) as { inner: Uint8Array }).inner.byteLength).toBe(MAX_BORROWED_BYTES * 2);
  });
});
