import { expect, it } from 'vitest';
import { expectKept } from '../../../test/support/kept-memory.js';
import { keepInPlace } from '../src/contract/memory-in-place.js';

it('keeps the memory of a buffer, also where its methods are read-only', () => {
  const frozen = Object.freeze(
    Object.create(ArrayBuffer.prototype, {
      transfer: { value: () => {} },
      transferToFixedLength: { value: () => {} },
    }) as object,
  );
  for (const prototype of [ArrayBuffer.prototype, frozen]) {
    const buffer = Object.setPrototypeOf(new ArrayBuffer(8), prototype) as ArrayBuffer;
    for (let n = 0; n < 2; n++) {
      keepInPlace(buffer);
      expectKept(new Uint8Array(buffer));
    }
  }
});

it('leaves a frozen buffer as it is', () => {
  const buffer = Object.freeze(new ArrayBuffer(8));
  keepInPlace(buffer);
  expect(Object.getOwnPropertyNames(buffer)).toEqual([]);
});
