import { allocateMemory, recycledBytesFor } from '@verbmq/core/transport-kit';
import { messageMemory } from './message-memory.js';

/** What is allocated at first, where memory grows with what comes. */
const FIRST_BYTES = 64 * 1024;
const GROWTH = 4;

/** Up to this length, memory may be had at once in full: 1 MiB with the headers that layers above put before it. */
const AHEAD_BYTES = 1024 * 1024 + 4096;

/** What the whole process has allocated so, and the most that it may. */
let aheadBytes = 0;
const MAX_AHEAD_BYTES = 16 * 1024 * 1024;

/**
 * Memory for something that arrives in several chunks and whose length the peer has claimed.
 *
 * It grows with what has arrived: what is held is at most 64 KiB, or four times the bytes that have come; growing copies
 * a third of the bytes once more. What is not longer than about 1 MiB is spared that while few others are: memory ahead of
 * what has arrived is bounded for all peers together, and whoever makes claims alone soon gets none of it.
 */
export class Assembly {
  readonly byteLength: number;
  /** The memory in which the whole lies, if it is memory that is used again. */
  readonly recycled: ArrayBuffer | undefined;
  #bytes: Uint8Array;
  #filled = 0;
  /** What it has of {@link aheadBytes}. */
  #aheadBytes: number;

  /**
   * @param mayRecycle takes the memory from message-memory.ts, where it can be had at once in full
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS`, as `append` does
   */
  constructor(byteLength: number, mayRecycle = false) {
    this.byteLength = byteLength;
    const wholeBytes = mayRecycle ? recycledBytesFor(byteLength) : byteLength;
    const isAhead = byteLength <= AHEAD_BYTES && aheadBytes + wholeBytes <= MAX_AHEAD_BYTES;
    this.recycled = isAhead && mayRecycle ? messageMemory.take(byteLength) : undefined;
    if (this.recycled !== undefined) this.#bytes = new Uint8Array(this.recycled, 0, byteLength);
    else this.#bytes = allocate(isAhead ? byteLength : Math.min(byteLength, FIRST_BYTES));
    this.#aheadBytes = isAhead ? wholeBytes : 0; // now that it is had
    aheadBytes += this.#aheadBytes;
  }

  get missing(): number {
    return this.byteLength - this.#filled;
  }

  get complete(): boolean {
    return this.#filled === this.byteLength;
  }

  /** Memory held at the moment, in bytes. */
  get heldBytes(): number {
    return this.#bytes.byteLength;
  }

  /** Takes `chunk` from `start` to `end`, which must not exceed what is missing. */
  append(chunk: Uint8Array, start: number, end: number): void {
    const filled = this.#filled + end - start;
    if (filled > this.#bytes.byteLength) this.#grow(filled);
    const whole = start === 0 && end === chunk.byteLength;
    this.#bytes.set(whole ? chunk : chunk.subarray(start, end), this.#filled);
    this.#filled = filled;
  }

  /** The whole, when it is complete, or whatever there is when it never will be. To be called once, at the end. */
  end(): Uint8Array {
    aheadBytes -= this.#aheadBytes;
    this.#aheadBytes = 0;
    return this.#bytes;
  }

  #grow(needed: number): void {
    const wanted = Math.max(needed, this.#bytes.byteLength * GROWTH);
    const grown = allocate(Math.min(this.byteLength, wanted));
    grown.set(this.#bytes.subarray(0, this.#filled), 0);
    this.#bytes = grown;
  }
}

/** Memory that is not initialised, as a plain `Uint8Array` like every other message. */
function allocate(bytes: number): Uint8Array {
  return new Uint8Array(allocateMemory(bytes).buffer);
}
