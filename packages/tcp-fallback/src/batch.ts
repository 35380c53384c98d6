import { HEADER_BYTES } from './frame.js';

/** The memory of a batch. */
const BATCH_BYTES = 64 * 1024;

/**
 * The end of a batch that `fits` leaves free: for control frames, and for the headers of frames whose payload leaves
 * beside the batch.
 */
const RESERVED_BYTES = 1024;

/** Batches that are kept for the next write, for all connections of the process together. */
const MAX_POOLED = 16;

const pool: Batch[] = [];

/** Frames that leave together, copied one behind the other. Idle connections hold none. */
export class Batch {
  readonly bytes = Buffer.allocUnsafeSlow(BATCH_BYTES);
  readonly #view = new DataView(this.bytes.buffer, this.bytes.byteOffset, BATCH_BYTES);
  used = 0;

  static take(): Batch {
    return pool.pop() ?? new Batch();
  }

  /** Nobody needs its bytes any more. */
  recycle(): void {
    this.used = 0;
    if (pool.length < MAX_POOLED) pool.push(this);
  }

  /** Whether a frame with so much payload fits. */
  fits(payloadBytes: number): boolean {
    return this.used + HEADER_BYTES + payloadBytes <= BATCH_BYTES - RESERVED_BYTES;
  }

  /** Whether so many bytes fit, the reserved ones included. */
  hasRoom(bytes: number): boolean {
    return this.used + bytes <= BATCH_BYTES;
  }

  header(type: number, payloadBytes: number): void {
    this.#view.setUint32(this.used, payloadBytes, true);
    this.#view.setUint32(this.used + 4, type, true);
    this.used += HEADER_BYTES;
  }

  uint32(value: number): void {
    this.#view.setUint32(this.used, value, true);
    this.used += 4;
  }

  append(payload: Uint8Array): void {
    this.bytes.set(payload, this.used);
    this.used += payload.byteLength;
  }
}
