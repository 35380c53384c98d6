import { allocateMemory } from '../contract/ordinary-memory.js';

/**
 * Memory that is used again: for what is long, having new memory costs as much as a copy, as its pages are given out one by one.
 * Who never gives it back leaves it to the garbage collector.
 */
export class RecycledMemory {
  readonly #maxIdleBytes: number;
  /** By size; the last one that came back goes first, as it is still in the processor's cache. */
  readonly #idle = new Map<number, ArrayBuffer[]>();
  #idleBytes = 0;

  /** @param maxIdleBytes what may wait here to be used again, at most */
  constructor(maxIdleBytes: number) {
    this.#maxIdleBytes = maxIdleBytes;
  }

  /**
   * Memory of {@link recycledBytesFor} `bytes` bytes, whose content is arbitrary.
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS`
   */
  take(bytes: number): ArrayBuffer {
    const size = recycledBytesFor(bytes);
    const memory = this.#idle.get(size)?.pop();
    if (memory === undefined) return allocateMemory(size).buffer;
    this.#idleBytes -= size;
    return memory;
  }

  /** Nobody needs it any more: the next one to take so much may have it. */
  give(memory: ArrayBuffer): void {
    const size = memory.byteLength;
    if (size === 0 || this.#idleBytes + size > this.#maxIdleBytes) return; // 0: it was transferred to another thread
    this.#idleBytes += size;
    const list = this.#idle.get(size);
    if (list === undefined) this.#idle.set(size, [memory]);
    else list.push(memory);
  }
}

/** The size of the memory for so many bytes: four sizes between each power of two and the next, so at most a quarter more. */
export function recycledBytesFor(bytes: number): number {
  const step = 2 ** Math.max(10, 29 - Math.clz32(bytes - 1));
  return Math.ceil(bytes / step) * step;
}
