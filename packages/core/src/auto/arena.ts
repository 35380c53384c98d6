/** Frames longer than this get memory of their own. */
const MAX_SHARED_BYTES = 2 * 1024;

const CHUNK_BYTES = 16 * 1024;

/**
 * Memory for short frames, cut from chunks: making an ArrayBuffer for each would cost more than copying the frame. A
 * chunk is garbage when none of its frames is used any more.
 */
export class Arena {
  #chunk: Uint8Array | undefined;
  #used = 0;

  allocate(bytes: number): Uint8Array {
    if (bytes > MAX_SHARED_BYTES) return uninitialised(bytes);
    if (this.#chunk === undefined || this.#used + bytes > CHUNK_BYTES) {
      this.#chunk = uninitialised(CHUNK_BYTES);
      this.#used = 0;
    }
    const start = this.#used;
    this.#used += bytes;
    return this.#chunk.subarray(start, this.#used);
  }

  /** Nothing that was cut from it is used any more: begins again at the start of the chunk. */
  rest(): void {
    this.#used = 0;
  }
}

/** Memory whose content is arbitrary; as a plain Uint8Array, whose views are made faster than a Buffer's. */
export function uninitialised(bytes: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
}
