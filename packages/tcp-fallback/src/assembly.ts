/** What is allocated at first for something that comes in several chunks. */
const FIRST_BYTES = 64 * 1024;
const GROWTH = 4;

/**
 * Memory for something that arrives in several chunks and whose length the peer has claimed. It grows with what has
 * arrived: a claim alone costs 64 KiB at most, and growing by a factor of four copies a third of the bytes once more.
 */
export class Assembly {
  readonly byteLength: number;
  #bytes: Uint8Array;
  #filled = 0;

  constructor(byteLength: number) {
    this.byteLength = byteLength;
    this.#bytes = allocate(Math.min(byteLength, FIRST_BYTES));
  }

  get missing(): number {
    return this.byteLength - this.#filled;
  }

  get complete(): boolean {
    return this.#filled === this.byteLength;
  }

  /** Memory held at the moment, in bytes. */
  get capacity(): number {
    return this.#bytes.byteLength;
  }

  /** The whole, once it is complete. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /** Takes `chunk` from `start` to `end`, which must not exceed what is missing. */
  append(chunk: Uint8Array, start: number, end: number): void {
    const filled = this.#filled + end - start;
    if (filled > this.#bytes.byteLength) this.#grow(filled);
    this.#bytes.set(
      start === 0 && end === chunk.byteLength ? chunk : chunk.subarray(start, end),
      this.#filled,
    );
    this.#filled = filled;
  }

  #grow(needed: number): void {
    const grown = allocate(Math.min(this.byteLength, Math.max(needed, this.#bytes.byteLength * GROWTH)));
    grown.set(this.#bytes.subarray(0, this.#filled), 0);
    this.#bytes = grown;
  }
}

/** Memory that is not initialised, as a plain `Uint8Array` like every other message. */
function allocate(bytes: number): Uint8Array {
  const buffer = Buffer.allocUnsafeSlow(bytes);
  return new Uint8Array(buffer.buffer, buffer.byteOffset, bytes);
}
