import { uninitialised } from './frame-memory.js';
import { HEADER_BYTES, putUint32 } from './frames.js';

/**
 * The longest frame of several messages, in bytes. It fits a slot of the RDMA transport; and what a frame costs is by then
 * shared by so many messages that longer ones would gain nothing.
 */
export const MAX_BATCH_BYTES = 4080;

/** What stands before each message of a batch: its length, u32. */
export const ENTRY_BYTES = 4;

const CHUNK_BYTES = 16 * 1024;

/** What a batch must know of the frames that were made. */
export interface Numbers {
  /** Of the last one, and of the last that the peer has acknowledged. */
  readonly last: number;
  readonly lastAcknowledged: number;
}

/**
 * The frame that is being filled: short messages that are sent in one turn of the event loop leave together. Frames lie one
 * behind the other in two chunks that take turns. A chunk that is needed before its frames are acknowledged is left to them.
 */
export class Batch {
  readonly #limitBytes: number;
  /** The longest message that goes into a batch at all. */
  readonly longestBytes: number;
  readonly #numbers: Numbers;
  /** Where the frames lie; the last begins at `start` and ends at `end`. */
  chunk: Uint8Array = NO_BYTES;
  start = 0;
  end = 0;
  /** The chunk before this one, and its last frame. */
  #before: Uint8Array = NO_BYTES;
  #lastBefore = 0;
  /** Messages in it. */
  count = 0;

  /** @param limitBytes the longest frame, at most {@link MAX_BATCH_BYTES} and enough for one of the messages that are added. */
  constructor(limitBytes: number, numbers: Numbers) {
    this.#limitBytes = limitBytes;
    this.longestBytes = limitBytes / 2 - HEADER_BYTES - ENTRY_BYTES;
    this.#numbers = numbers;
  }

  get bytes(): number {
    return this.count === 0 ? 0 : this.end - this.start;
  }

  /** Whether one more message of so many bytes finds room in this one. */
  fits(bytes: number): boolean {
    return this.end - this.start + ENTRY_BYTES + bytes <= this.#limitBytes;
  }

  /** Copies a message, for which there is room. */
  add(message: Uint8Array): void {
    if (this.count === 0) this.#begin();
    const chunk = this.chunk;
    const { length } = message;
    putUint32(chunk, this.end, length);
    chunk.set(message, this.end + ENTRY_BYTES);
    this.end += ENTRY_BYTES + length;
    this.count++;
  }

  /** The frame is complete, and its header is to be filled in. One message alone is a frame without its length. */
  take(): void {
    if (this.count === 1) this.start += ENTRY_BYTES;
    this.count = 0;
  }

  /** Makes a frame of one message, while there is none. */
  single(message: Uint8Array): void {
    this.#begin();
    this.chunk.set(message, this.end);
    this.end += message.length;
  }

  #begin(): void {
    if (this.end + this.#limitBytes > this.chunk.length) this.#nextChunk();
    this.start = this.end;
    this.end += HEADER_BYTES;
  }

  #nextChunk(): void {
    const { last, lastAcknowledged } = this.#numbers;
    const mayReuse = this.#before.length > 0 && this.#lastBefore <= lastAcknowledged;
    const next = mayReuse ? this.#before : uninitialised(CHUNK_BYTES);
    this.#before = this.chunk;
    this.#lastBefore = last;
    this.chunk = next;
    this.end = 0;
  }
}

const NO_BYTES = new Uint8Array(0);
