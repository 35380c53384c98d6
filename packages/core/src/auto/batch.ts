import { HEADER_BYTES, putUint32 } from './frames.js';

/**
 * The longest frame of several messages, in bytes. It fits a slot of the RDMA transport; and what a frame costs is by then
 * shared by so many messages that longer ones would gain nothing.
 */
export const MAX_BATCH_BYTES = 4080;

/** What stands before each message of a batch: its length, u32. */
export const ENTRY_BYTES = 4;

const CHUNK_BYTES = 16 * 1024;

/**
 * The frame that is being filled: short messages that are sent in one turn of the event loop leave together. Frames lie one
 * behind the other in chunks; a chunk is garbage when none of its frames is kept.
 */
export class Batch {
  readonly #limitBytes: number;
  #chunk: Uint8Array = NO_BYTES;
  #start = 0;
  #end = 0;
  /** Messages in it. */
  count = 0;

  /** @param limitBytes the longest frame, at most {@link MAX_BATCH_BYTES} and enough for one of the messages that are added. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.count === 0 ? 0 : this.#end - this.#start;
  }

  /** Whether a message of so many bytes goes into a batch at all. */
  takes(bytes: number): boolean {
    return HEADER_BYTES + ENTRY_BYTES + bytes <= this.#limitBytes / 2;
  }

  /** Whether one more message of so many bytes finds room in this one. */
  fits(bytes: number): boolean {
    return this.#end - this.#start + ENTRY_BYTES + bytes <= this.#limitBytes;
  }

  /** Copies a message, for which there is room. */
  add(message: Uint8Array): void {
    if (this.count === 0) this.#begin();
    const chunk = this.#chunk;
    const { length } = message;
    putUint32(chunk, this.#end, length);
    chunk.set(message, this.#end + ENTRY_BYTES);
    this.#end += ENTRY_BYTES + length;
    this.count++;
  }

  /** The frame, whose header is to be filled in; the next message begins another. */
  take(): Uint8Array {
    this.count = 0;
    return this.#chunk.subarray(this.#start, this.#end);
  }

  /** None of the frames before is kept any more: their memory is used again. */
  reuse(): void {
    if (this.count === 0) this.#end = 0;
  }

  #begin(): void {
    if (this.#end + this.#limitBytes > this.#chunk.length) {
      this.#chunk = uninitialised(CHUNK_BYTES);
      this.#end = 0;
    }
    this.#start = this.#end;
    this.#end += HEADER_BYTES;
  }
}

const NO_BYTES = new Uint8Array(0);

/** Memory whose content is arbitrary; as a plain Uint8Array, whose views are made faster than a Buffer's. */
export function uninitialised(bytes: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
}
