import { constants } from 'node:buffer';
import { allocateMemory, copyOf, RecycledMemory } from '@verbmq/core/transport-kit';
import { expect, test } from 'vitest';

const NO_BUFFERS = expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS', cause: expect.any(RangeError) });

test('memory is all of its buffer, and a copy is as the original', () => {
  const memory = allocateMemory(10);
  expect(memory.buffer.byteLength).toBe(10);
  expect(copyOf(memory)).toEqual(new Uint8Array(memory));
});

test('memory that cannot be had is ERR_VERBMQ_NO_BUFFERS, also where it would be used again', () => {
  expect(() => allocateMemory(constants.MAX_LENGTH + 1)).toThrow(NO_BUFFERS);
  expect(() => new RecycledMemory(0).take(constants.MAX_LENGTH * 2)).toThrow(NO_BUFFERS);
});
