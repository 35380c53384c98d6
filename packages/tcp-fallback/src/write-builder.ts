import { HEADER_BYTES } from './frame.js';

// See "Code that runs for each message" in CONTRIBUTING.md.
const { set } = Uint8Array.prototype;

/** The most memory of a batch. It begins with less: what a thousand connections write in one tick takes no 64 MB. */
const BATCH_BYTES = 64 * 1024;
const FIRST_BATCH_BYTES = 8 * 1024;

/**
 * The end of a batch that `fits` leaves free: for control frames, and for the headers of frames whose payload is not
 * copied. So whatever was copied into a batch before, a few of those always find room.
 */
const RESERVED_BYTES = 1024;

/** Batches of each size that are kept for the next write, for all connections of the process together. */
const MAX_POOLED = 16;

/** Where frames are copied one behind the other. */
class Batch {
  readonly bytes: Buffer;
  readonly view: DataView;
  /** The beginning that was written last: messages are often as long as the ones before them. */
  #beginning: Buffer;

  constructor(length: number) {
    this.bytes = Buffer.alloc(length);
    this.view = new DataView(this.bytes.buffer);
    this.#beginning = this.bytes;
  }

  /** A part of it, as a `Buffer`: of any other view the socket would make one, for every write. */
  part(start: number, end: number): Buffer {
    if (start > 0) return this.bytes.subarray(start, end);
    if (this.#beginning.length !== end) this.#beginning = this.bytes.subarray(0, end);
    return this.#beginning;
  }
}

const firstBatches: Batch[] = [];
const wholeBatches: Batch[] = [];

/** What a write has none of. One for all: a list of its own for each would outlive the tick, once for each connection. */
const NONE: never[] = [];

/** Somebody who waits until his memory has been written from. */
export interface Waiter {
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** One write: its pieces in order, the batches among them, and who waits for it. */
export interface Write {
  readonly pieces: readonly Uint8Array[];
  readonly bytes: number;
  readonly batches: readonly Batch[];
  readonly waiters: readonly Waiter[];
}

/** The memory of a write's batches is free again. */
export function recycle(batches: readonly Batch[]): void {
  for (const batch of batches) {
    const pool = batch.bytes.length === BATCH_BYTES ? wholeBatches : firstBatches;
    if (pool.length < MAX_POOLED) pool.push(batch);
  }
}

/**
 * Puts the next write together. Small frames are copied into batches; long payloads are taken where they lie, between
 * the pieces of the batch. While nothing is to be written it holds no memory.
 */
export class WriteBuilder {
  #batch: Batch | undefined;
  #used = 0;
  /** Where the part of the batch begins that is not among the pieces yet. */
  #start = 0;
  #pieces: Uint8Array[] = NONE;
  #batches: Batch[] = NONE;
  #waiters: Waiter[] = NONE;
  /** What there is to write, in bytes. */
  bytes = 0;

  /** Whether a frame with so much payload can be copied into the present batch. */
  fits(payloadBytes: number): boolean {
    return this.#used + HEADER_BYTES + payloadBytes <= BATCH_BYTES - RESERVED_BYTES;
  }

  /** Whether so many bytes find room in the present batch, its reserve included. */
  hasRoom(bytes: number): boolean {
    return this.#used + bytes <= BATCH_BYTES;
  }

  /** Begins another batch; what is in the present one stays part of the write. */
  nextBatch(): void {
    this.#cut();
    if (this.#batch !== undefined) this.#batches = appended(this.#batches, this.#batch);
    this.#batch = undefined;
    this.#used = 0;
    this.#start = 0;
  }

  /** Copies a whole frame, for which there must be room. */
  frame(type: number, payload: Uint8Array): void {
    const { length } = payload;
    const { bytes, view } = this.#room(HEADER_BYTES + length);
    const at = this.#used;
    view.setUint32(at, length, true);
    view.setUint32(at + 4, type, true);
    if (length > 0) set.call(bytes, payload, at + HEADER_BYTES);
    this.#used = at + HEADER_BYTES + length;
    this.bytes += HEADER_BYTES + length;
  }

  /** The same, for a payload that begins with the first `headBytes` bytes of `head`. */
  frameBehind(type: number, head: Uint8Array, headBytes: number, rest: Uint8Array): void {
    const { length } = rest;
    const { bytes, view } = this.#room(HEADER_BYTES + headBytes + length);
    const at = this.#used;
    view.setUint32(at, headBytes + length, true);
    view.setUint32(at + 4, type, true);
    // It is short: that is faster than a view of it, and `set`.
    for (let i = 0; i < headBytes; i++) bytes[at + HEADER_BYTES + i] = head[i] as number;
    if (length > 0) set.call(bytes, rest, at + HEADER_BYTES + headBytes);
    this.#used = at + HEADER_BYTES + headBytes + length;
    this.bytes += HEADER_BYTES + headBytes + length;
  }

  /** A header; the payload follows by `copy`, `uint32` or `borrow`. */
  header(type: number, payloadBytes: number): void {
    this.uint32(payloadBytes);
    this.uint32(type);
  }

  uint32(value: number): void {
    this.#room(4).view.setUint32(this.#used, value, true);
    this.#used += 4;
    this.bytes += 4;
  }

  copy(bytes: Uint8Array): void {
    this.#room(bytes.byteLength).bytes.set(bytes, this.#used);
    this.#used += bytes.byteLength;
    this.bytes += bytes.byteLength;
  }

  /** Takes memory where it lies. */
  borrow(bytes: Uint8Array): void {
    this.#cut();
    this.#pieces = appended(this.#pieces, bytes);
    this.bytes += bytes.byteLength;
  }

  /** Somebody is told when the write is done. */
  wait(waiter: Waiter): void {
    this.#waiters = appended(this.#waiters, waiter);
  }

  /** The write, complete; the builder begins the next one. */
  take(): Write {
    this.nextBatch();
    const write = { pieces: this.#pieces, bytes: this.bytes, batches: this.#batches, waiters: this.#waiters };
    this.#reset();
    return write;
  }

  /** There will be no more writes. Answers who waits. */
  discard(): readonly Waiter[] {
    const waiters = this.#waiters;
    this.#batch = undefined;
    this.#used = 0;
    this.#start = 0;
    this.#reset();
    return waiters;
  }

  #reset(): void {
    this.#pieces = NONE;
    this.#batches = NONE;
    this.#waiters = NONE;
    this.bytes = 0;
  }

  /** The batch, with room for so many bytes at `#used`: they are no more than `fits` or `hasRoom` allowed. */
  #room(bytes: number): Batch {
    const batch = this.#batch;
    return batch !== undefined && this.#used + bytes <= batch.bytes.length
      ? batch
      : this.#larger(batch, bytes);
  }

  #larger(batch: Batch | undefined, bytes: number): Batch {
    if (batch === undefined && bytes <= FIRST_BATCH_BYTES) {
      this.#batch = firstBatches.pop() ?? new Batch(FIRST_BATCH_BYTES);
      return this.#batch;
    }
    const whole = wholeBatches.pop() ?? new Batch(BATCH_BYTES);
    if (batch !== undefined && this.#start === 0) {
      whole.bytes.set(batch.bytes.subarray(0, this.#used)); // one piece is cheaper to write than two
      recycle([batch]);
    } else this.nextBatch();
    this.#batch = whole;
    return whole;
  }

  #cut(): void {
    if (this.#batch === undefined || this.#used === this.#start) return;
    this.#pieces = appended(this.#pieces, this.#batch.part(this.#start, this.#used));
    this.#start = this.#used;
  }
}

/** The list with one more. It is another list where it was {@link NONE}. */
function appended<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}
