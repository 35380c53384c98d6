// Memory of large messages: what is registered, used again, and given back.
import { describe, expect, test, vi } from 'vitest';
import { onSimulatedDevice, resetForTest } from '../../../test/support/simulated-device.js';
import { errno } from '../../../test/support/simulated-pair.js';
import { MemoryUse } from '../src/binding.js';
import { BufferPool, bufferBytesFor, type PooledBuffer, viewOf } from '../src/buffer-pool.js';
import type { RdmaTransportOptions } from '../src/options.js';
import type { RdmaEngine } from '../src/rdma-engine.js';
import { rawPair } from './raw-ends.js';

const KIB = 1024;

describe('sizes of buffers', () => {
  test.each([
    [1, 8 * KIB],
    [8 * KIB, 8 * KIB],
    [8 * KIB + 1, 10 * KIB],
    [10 * KIB + 1, 12 * KIB],
    [16 * KIB, 16 * KIB],
    [16 * KIB + 1, 20 * KIB],
    [1_000_000, 1024 * KIB],
    [64 * KIB * KIB, 64 * KIB * KIB],
    [64 * KIB * KIB + 1, 80 * KIB * KIB],
    [2 ** 30, 2 ** 30],
  ])('%i bytes take %i', (bytes, expected) => {
    expect(bufferBytesFor(bytes)).toBe(expected);
  });

  test('no buffer is too small, nor a quarter too large', () => {
    for (let bytes = 8 * KIB; bytes < 2 ** 30; bytes = Math.ceil(bytes * 1.0137)) {
      const buffer = bufferBytesFor(bytes);
      expect(buffer).toBeGreaterThanOrEqual(bytes);
      expect(buffer).toBeLessThanOrEqual(bytes * 1.25);
    }
  });
});

await onSimulatedDevice('rxe', (device) => {
  async function newPool(options: RdmaTransportOptions = {}): Promise<BufferPool> {
    resetForTest(device, 'rxe');
    const { client } = await rawPair(device, options);
    engine = client.engine;
    return new BufferPool(engine, client.handle, MemoryUse.sink, 'in');
  }
  let engine: RdmaEngine;

  test('buffers of one slab do not overlap, and are all of it', async () => {
    const pool = await newPool();
    const buffers = Array.from({ length: 128 }, () => pool.take(8 * KIB));
    for (const [n, buffer] of buffers.entries()) viewOf(buffer, 8 * KIB).fill(n);
    for (const [n, buffer] of buffers.entries()) {
      expect(viewOf(buffer, 8 * KIB).every((byte) => byte === n)).toBe(true);
    }
    expect(pool.bytes).toBe(1024 * KIB);
    expect(device.calls('ibv_reg_mr')).toBe(4 + 1);
    pool.take(8 * KIB);
    expect(pool.bytes).toBe(2048 * KIB);
  });

  test('what was given back is used again, and nothing is registered for it', async () => {
    const pool = await newPool();
    const first = pool.take(300 * KIB);
    pool.give(first);
    const calls = device.calls('ibv_reg_mr');
    for (let n = 0; n < 1000; n++) {
      const again = pool.take(310 * KIB);
      expect(again).toBe(first);
      pool.give(again);
    }
    expect(device.calls('ibv_reg_mr')).toBe(calls);
  });

  test('what is not used for some seconds is given back, and what is used stays', async () => {
    const pool = await newPool();
    const regions = device.live('mr');
    vi.useFakeTimers();
    try {
      const used = pool.take(300 * KIB);
      pool.give(pool.take(500 * KIB));
      vi.advanceTimersByTime(5000);
      expect(device.live('mr')).toBe(regions + 2);
      vi.advanceTimersByTime(5000);
      expect(device.live('mr')).toBe(regions + 1);
      expect(pool.bytes).toBe(320 * KIB);
      vi.advanceTimersByTime(60_000);
      expect(device.live('mr')).toBe(regions + 1);
      pool.give(used);
      vi.advanceTimersByTime(10_000);
      expect(device.live('mr')).toBe(regions);
      expect(pool.bytes).toBe(0);
      expect(vi.getTimerCount()).toBe(0);
      // And it can grow again.
      pool.give(pool.take(300 * KIB));
      expect(pool.bytes).toBe(320 * KIB);
    } finally {
      vi.useRealTimers();
    }
  });

  test('memory that cannot be had is an error, once what lies idle has been given back', async () => {
    const pool = await newPool();
    const held = pool.take(300 * KIB);
    device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
    expect(() => pool.take(500 * KIB)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }));
    pool.give(held);
    expect(() => pool.take(500 * KIB)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }));
    expect(pool.bytes).toBe(0);
    device.reset('rxe');
    pool.take(500 * KIB);
  });

  test('of what lies idle, over all sizes, the oldest goes beyond the limit', async () => {
    const idleMemoryBytes = 1024 * KIB;
    const pool = await newPool({ idleMemoryBytes });
    const regions = device.live('mr');
    for (let bytes = 260 * KIB; bytes < 4096 * KIB; bytes += 50 * KIB) {
      const buffer = pool.take(bytes);
      pool.give(buffer);
      expect(engine.poolMemory.idleBytes).toBe(pool.bytes);
      expect(pool.bytes).toBeLessThanOrEqual(idleMemoryBytes);
    }
    // What is used does not count, and stays.
    const used = [300, 400, 500, 600].map((kib) => pool.take(kib * KIB));
    const usedBytes = (320 + 448 + 512 + 640) * KIB;
    expect(engine.poolMemory.usedBytes('in')).toBe(usedBytes);
    expect(pool.bytes - engine.poolMemory.idleBytes).toBe(usedBytes);
    for (const buffer of used) pool.give(buffer);
    // The last that fit: 512 KiB would have been too much.
    expect(pool.bytes).toBe(640 * KIB);
    expect(device.live('mr')).toBe(regions + 1);
    const calls = device.calls('ibv_reg_mr');
    pool.take(600 * KIB);
    expect(device.calls('ibv_reg_mr')).toBe(calls);
    pool.close();
    expect(engine.poolMemory.idleBytes).toBe(0);
    expect(engine.poolMemory.usedBytes('in')).toBe(0);
  });

  test('all pools of one direction together use no more than their limit, but for a single buffer', async () => {
    const pool = await newPool({ largeMemoryTotalBytes: 1024 * KIB });
    const large = pool.take(2048 * KIB);
    const refused = expect.objectContaining({
      code: 'ERR_VERBMQ_NO_BUFFERS',
      message: expect.stringContaining('largeMemoryTotalBytes (1048576)'),
    });
    expect(() => pool.take(8 * KIB)).toThrow(refused);
    pool.give(large);
    const buffers = Array.from({ length: 128 }, () => pool.take(8 * KIB));
    expect(() => pool.take(8 * KIB)).toThrow(refused);
    pool.give(buffers[0] as PooledBuffer);
    pool.take(8 * KIB);
  });
});
