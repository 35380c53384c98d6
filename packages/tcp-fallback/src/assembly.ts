/** What is allocated at first where bytes come in small chunks. */
const FIRST_BYTES = 64 * 1024;
const GROWTH = 4;

/** A chunk of at least so many bytes is kept as it is until its bytes can go to where they stay. */
const KEPT_CHUNK_BYTES = 8 * 1024;

/** So much is kept in chunks at the most. */
const MAX_KEPT_BYTES = 1024 * 1024;

const NO_BYTES = new Uint8Array(0);

/**
 * Memory for something that arrives in several chunks and whose length the peer has claimed. It grows with what has
 * arrived: what is held is at most 64 KiB, or four times the bytes that have come.
 *
 * Up to 1 MiB it is made in one piece when all of it is there, so that each byte is copied once; the chunks, which
 * are memory already, are kept until then. What is longer, or comes in small chunks, is copied as it comes into memory
 * that grows by a factor, which copies a third of the bytes once more.
 */
export class Assembly {
  readonly byteLength: number;
  /** Filled up to `#filled`; behind it come the kept chunks. */
  #bytes = NO_BYTES;
  #filled = 0;
  #kept: Uint8Array[] = [];
  #keptBytes = 0;

  constructor(byteLength: number) {
    this.byteLength = byteLength;
  }

  get missing(): number {
    return this.byteLength - this.#filled - this.#keptBytes;
  }

  get complete(): boolean {
    return this.missing === 0;
  }

  /** Memory held at the moment, in bytes. */
  get heldBytes(): number {
    return this.#bytes.byteLength + this.#keptBytes;
  }

  /** The whole, once it is complete. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /** Takes `chunk` from `start` to `end`, which must not exceed what is missing. */
  append(chunk: Uint8Array, start: number, end: number): void {
    const part = start === 0 && end === chunk.byteLength ? chunk : chunk.subarray(start, end);
    const length = part.byteLength;
    if (length >= KEPT_CHUNK_BYTES) {
      this.#kept.push(part);
      this.#keptBytes += length;
      if (this.#keptBytes >= MAX_KEPT_BYTES || this.complete) this.#gather(0);
      return;
    }
    this.#gather(length);
    this.#bytes.set(part, this.#filled);
    this.#filled += length;
  }

  /** Copies the kept chunks to where they stay, and sees to it that `more` bytes fit behind them. */
  #gather(more: number): void {
    const needed = this.#filled + this.#keptBytes + more;
    if (needed > this.#bytes.byteLength) this.#grow(needed);
    for (const chunk of this.#kept) {
      this.#bytes.set(chunk, this.#filled);
      this.#filled += chunk.byteLength;
    }
    this.#kept = [];
    this.#keptBytes = 0;
  }

  #grow(needed: number): void {
    const wanted = Math.max(needed, FIRST_BYTES, this.#bytes.byteLength * GROWTH);
    const grown = allocate(Math.min(this.byteLength, wanted));
    grown.set(this.#bytes.subarray(0, this.#filled), 0);
    this.#bytes = grown;
  }
}

/** Memory that is not initialised, as a plain `Uint8Array` like every other message. */
function allocate(bytes: number): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset } = Buffer.allocUnsafeSlow(bytes);
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, bytes);
}
