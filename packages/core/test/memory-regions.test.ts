import { endianness } from 'node:os';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryRegions } from '../src/transport-kit/memory-regions.js';

const REFUSED = expect.objectContaining({ code: 'ERR_VERBMQ_REMOTE_ACCESS' });
const ALL = { read: true, write: true, atomic: true };

test('reads and writes reach the memory that was exposed', async () => {
  const regions = new MemoryRegions();
  const { data, key } = regions.expose(16, ALL);
  expect([...data]).toEqual(Array(16).fill(0));
  regions.write(key, 4, Uint8Array.of(1, 2, 3));
  expect([...data.subarray(3, 8)]).toEqual([0, 1, 2, 3, 0]);
  data[0] = 9;
  expect([...regions.read(key, 0, 2)]).toEqual([9, 0]);
});

test('each region has a key of its own that cannot be guessed', () => {
  const regions = new MemoryRegions();
  const keys = Array.from({ length: 100 }, () => regions.expose(8, ALL).key);
  expect(new Set(keys.map((key) => Buffer.from(key).toString('hex'))).size).toBe(100);
  expect(keys.every((key) => key.byteLength === 16)).toBe(true);
});

test('any offset and length is inside of the region or refused', () => {
  const regions = new MemoryRegions();
  const { key } = regions.expose(100, ALL);
  const integer = fc.oneof(fc.integer({ min: -5, max: 110 }), fc.maxSafeInteger());
  const offsets = fc.oneof(integer, fc.double()); // those of 64 bits may come as anything
  fc.assert(
    fc.property(offsets, integer, (offset, length) => {
      const inside = Number.isInteger(offset) && offset >= 0 && length >= 0 && offset + length <= 100;
      if (inside) expect(regions.read(key, offset, length).byteLength).toBe(length);
      else expect(() => regions.read(key, offset, length)).toThrow(REFUSED);
    }),
    { numRuns: 1000 },
  );
});

test('unknown, shortened and revoked keys are refused', async () => {
  const regions = new MemoryRegions();
  const { key, revoke } = regions.expose(8, ALL);
  const other = regions.expose(8, ALL);
  const forged = new Uint8Array(key);
  forged[0]! ^= 1;
  expect(() => regions.read(forged, 0, 8)).toThrow(REFUSED);
  expect(() => regions.read(key.subarray(0, 15), 0, 8)).toThrow(REFUSED);
  expect(() => regions.read(new Uint8Array(0), 0, 8)).toThrow(REFUSED);
  await revoke();
  await revoke();
  expect(() => regions.read(key, 0, 8)).toThrow(REFUSED);
  expect(() => regions.write(key, 0, new Uint8Array(1))).toThrow(REFUSED);
  expect(regions.read(other.key, 0, 8).byteLength).toBe(8);
  regions.clear();
  expect(() => regions.read(other.key, 0, 8)).toThrow(REFUSED);
});

test('only what was granted is allowed', () => {
  const regions = new MemoryRegions();
  const readable = regions.expose(8, { read: true, write: false, atomic: false }).key;
  const writable = regions.expose(8, { read: false, write: true, atomic: false }).key;
  expect(() => regions.write(readable, 0, new Uint8Array(1))).toThrow(REFUSED);
  expect(() => regions.fetchAdd(readable, 0, 1n)).toThrow(REFUSED);
  expect(() => regions.compareAndSwap(writable, 0, 1n, 1n)).toThrow(REFUSED);
  expect(() => regions.read(writable, 0, 1)).toThrow(REFUSED);
});

test('atomics work on 64-bit integers in the order of bytes that this machine has', () => {
  const regions = new MemoryRegions();
  const { data, key } = regions.expose(16, ALL);
  const words = new BigUint64Array(data.buffer, data.byteOffset, 2);
  words[1] = 2n ** 64n - 1n;
  expect(regions.fetchAdd(key, 8, 3n)).toBe(2n ** 64n - 1n);
  expect(words[1]).toBe(2n);
  expect(regions.compareAndSwap(key, 8, 2n, 5n)).toBe(2n);
  expect(regions.compareAndSwap(key, 8, 2n, 6n)).toBe(5n);
  expect(words[1]).toBe(5n);
  expect(data[endianness() === 'LE' ? 8 : 15]).toBe(5);
  for (const offset of [1, 4, 9, 12, 16, -8]) {
    expect(() => regions.fetchAdd(key, offset, 1n)).toThrow(REFUSED);
  }
});

test('what one connection may expose is bounded, and revoking gives room', async () => {
  const regions = new MemoryRegions();
  const full = expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' });
  expect(() => regions.expose(5 * 1024 ** 3, ALL)).toThrow(full);
  const { revoke } = regions.expose(8, ALL);
  expect(() => regions.expose(4 * 1024 ** 3, ALL)).toThrow(full);
  await revoke();
});
