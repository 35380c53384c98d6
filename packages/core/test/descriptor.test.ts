import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeDescriptor, encodeDescriptor, resolveMemoryAccess } from '../src/contract/memory.js';

const fields = fc.record({
  address: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  byteLength: fc.maxSafeNat(),
  access: fc.record({ read: fc.boolean(), write: fc.boolean(), atomic: fc.boolean() }),
  key: fc.uint8Array({ maxLength: 64 }),
});

describe('a descriptor', () => {
  test('gives back what it was made of', () => {
    fc.assert(
      fc.property(fields, (fields) => {
        const descriptor = encodeDescriptor(fields);
        expect(descriptor).toMatch(/^[A-Za-z0-9_-]*$/);
        expect(decodeDescriptor(descriptor)).toEqual(fields);
      }),
    );
  });

  test('of any string is decoded or refused, and only its own form is decoded', () => {
    const anything = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary', maxLength: 600 }),
      fc.base64String({ maxLength: 200 }),
      fc.uint8Array({ maxLength: 120 }).map((bytes) => Buffer.from([1, ...bytes]).toString('base64url')),
    );
    fc.assert(
      fc.property(anything, (text) => {
        try {
          const decoded = decodeDescriptor(text);
          expect(decoded.byteLength).toBeGreaterThanOrEqual(0);
          expect(Number.isSafeInteger(decoded.byteLength)).toBe(true);
          expect(encodeDescriptor(decoded)).toBe(text);
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_VERBMQ_INVALID_DESCRIPTOR' });
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('with one character changed is refused or says something else', () => {
    fc.assert(
      fc.property(fields, fc.nat(), fc.constantFrom(...'AZaz09-_ +/='), (fields, at, character) => {
        const descriptor = encodeDescriptor(fields);
        const place = at % descriptor.length;
        fc.pre(descriptor[place] !== character);
        const changed = descriptor.slice(0, place) + character + descriptor.slice(place + 1);
        try {
          expect(decodeDescriptor(changed)).not.toEqual(fields);
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_VERBMQ_INVALID_DESCRIPTOR' });
        }
      }),
    );
  });

  test('that is no string is a mistake of the program', () => {
    expect(() => decodeDescriptor(5 as never)).toThrow(TypeError);
  });
});

describe('access rights', () => {
  test('are what is named, and nothing else', () => {
    expect(resolveMemoryAccess({ read: true })).toEqual({ read: true, write: false, atomic: false });
  });

  test('must be booleans, and at least one', () => {
    for (const access of [{}, { read: false }, { read: 1 }, { write: 'yes' }, null, undefined, 5]) {
      expect(() => resolveMemoryAccess(access as never)).toThrow(TypeError);
    }
  });
});
