/** What waits to be used again, in bytes: the most, for all connections of the process together. */
const MAX_FREE_BYTES = 8 * 1024 * 1024;

/** By size; the last one that came back goes first, as it is still in the processor's cache. */
const free = new Map<number, ArrayBuffer[]>();
let freeBytes = 0;

/**
 * Memory for a message of so many bytes that comes in pieces; not initialised, and up to a quarter larger. It is used
 * again after {@link recycleMessageMemory}; who never says so leaves it to the garbage collector.
 */
export function takeMessageMemory(bytes: number): ArrayBuffer {
  const size = memorySizeFor(bytes);
  const memory = free.get(size)?.pop();
  if (memory === undefined) return Buffer.allocUnsafeSlow(size).buffer as ArrayBuffer;
  freeBytes -= size;
  return memory;
}

/** Nobody needs it any more: the next message may have it. */
export function recycleMessageMemory(memory: ArrayBuffer): void {
  const size = memory.byteLength;
  if (size === 0 || freeBytes + size > MAX_FREE_BYTES) return; // 0: the application has transferred it to another thread
  freeBytes += size;
  const list = free.get(size);
  if (list === undefined) free.set(size, [memory]);
  else list.push(memory);
}

/** The size of the memory for a message of so many bytes: four sizes between each power of two and the next. */
export function memorySizeFor(bytes: number): number {
  const step = 2 ** Math.max(10, 29 - Math.clz32(bytes - 1));
  return Math.ceil(bytes / step) * step;
}
