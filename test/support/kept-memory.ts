import { expect } from 'vitest';

/** Which Node 20 does not have. */
type Transferable = ArrayBufferLike & { transfer(): unknown; transferToFixedLength(): unknown };

/** This memory is not to be had by any of the ways in which a program may take an ArrayBuffer away. */
export function expectKept({ buffer }: Uint8Array): void {
  const { byteLength } = buffer;
  const memory = buffer as Transferable;
  expect(() => memory.transfer()).toThrow(TypeError);
  expect(() => memory.transferToFixedLength()).toThrow('copy the bytes');
  try {
    structuredClone(memory, { transfer: [memory as ArrayBuffer] });
  } catch (error) {
    expect(error).toMatchObject({ name: 'DataCloneError' }); // from Node 21 on; before, it copies
  }
  expect(buffer.byteLength).toBe(byteLength);
}
