import { keepInPlace } from '../contract/memory-in-place.js';
import type { OutgoingLease } from '../contract/outgoing-lease.js';
import { Batch, MAX_BATCH_BYTES } from './batch.js';
import { takeFrame } from './frame-memory.js';
import { FrameKind, HEADER_BYTES } from './frames.js';
import type { Session } from './session.js';

/** Makes frames of messages: of short ones together, of a long one by itself. */
export class Outgoing {
  readonly #session: Session;
  readonly #batch: Batch;
  readonly #left: () => void;
  #scheduled = false;
  /** Until `flush` what is sent needs no end of the turn. */
  #held = false;
  /** What is sent is an answer to one message alone: nothing is gained by waiting for a second one. */
  #answering = false;
  readonly #flushSoon = (): void => {
    this.#scheduled = false;
    this.flush();
    this.#left();
  };

  /**
   * @param frameBytes the longest frame that every path takes.
   * @param left what waited for the end of a turn does not any more
   */
  constructor(session: Session, frameBytes: number, highWaterMarkBytes: number, left: () => void) {
    this.#session = session;
    this.#left = left;
    // A batch counts against the high-water mark only when it leaves: so it must be small beside it.
    this.#batch = new Batch(Math.min(MAX_BATCH_BYTES, frameBytes, highWaterMarkBytes / 2), session);
  }

  /** Bytes of messages that wait for the end of this turn. */
  get bytes(): number {
    return this.#batch.bytes;
  }

  /** Takes a message; `false` where there is no room. A lease has room for the header before it. */
  submit(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    const batch = this.#batch;
    if (this.#answering && batch.takes(data.length) && this.#session.sendShort(data, batch)) return true;
    return this.#submit(data, lease);
  }

  /** Apart from `submit`, so that V8 compiles that into its callers. */
  #submit(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    const batch = this.#batch;
    const { length } = data;
    this.#answering = false; // nothing overtakes this one
    if (batch.count > 0) {
      if (batch.fits(length)) {
        batch.add(data);
        return true;
      }
      this.flush();
    }
    if (!this.#session.hasRoom) return false;
    if (batch.takes(length)) {
      batch.add(data);
      if (!this.#scheduled && !this.#held) {
        this.#scheduled = true;
        process.nextTick(this.#flushSoon);
      }
      return true;
    }
    let frame: Uint8Array;
    if (lease === undefined) {
      frame = takeFrame(HEADER_BYTES + length);
      frame.set(data, HEADER_BYTES);
    } else frame = new Uint8Array(data.buffer, 0, HEADER_BYTES + length);
    this.#session.submit(FrameKind.DATA, frame, 1);
    return true;
  }

  /** A frame is being handled; `flush` will follow. `single`: one with one message. */
  hold(single: boolean): void {
    this.#held = true;
    this.#answering = single && this.#batch.count === 0;
  }

  /** What was taken leaves now, as far as the path lets it. */
  flush(): void {
    this.#held = false;
    this.#answering = false;
    if (this.#batch.count > 0) this.#submitBatch();
  }

  #submitBatch(): void {
    const batch = this.#batch;
    const { count } = batch;
    batch.take();
    this.#session.submit(
      count === 1 ? FrameKind.DATA : FrameKind.BATCH,
      batch.chunk,
      count,
      batch.start,
      batch.end,
    );
  }
}

/** An outgoing lease's memory: room for the header, then for so many bytes. */
export function leaseMemory(bytes: number): Uint8Array {
  const frame = takeFrame(HEADER_BYTES + bytes);
  keepInPlace(frame.buffer); // it is kept until the peer has it, and who has filled it may still know it
  return frame.subarray(HEADER_BYTES);
}
