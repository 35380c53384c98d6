import { keepInPlace } from '../contract/memory-in-place.js';
import type { OutgoingLease } from '../contract/outgoing-lease.js';
import { Batch, MAX_BATCH_BYTES } from './batch.js';
import { takeFrame } from './frame-memory.js';
import { FrameKind, HEADER_BYTES } from './frames.js';
import type { Session } from './session.js';

/** What a short message waits for: others may leave with it. */
const END_OF_TURN = 0;
/** The call of `flush` that will follow, which is earlier. */
const FLUSH = 1;
/** It is an answer to one message alone: nothing is gained by waiting for a second one. */
const NOTHING = 2;

/** Makes frames of messages: of short ones together, of a long one by itself. */
export class Outgoing {
  readonly #session: Session;
  readonly #batch: Batch;
  /** That of the batch: asked for there, with each message, it costs as much as a call. */
  readonly #longestBytes: number = 0;
  readonly #left: () => void;
  #scheduled = false;
  /** What a short message that is sent now waits for. */
  #waiting = END_OF_TURN;
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
    this.#longestBytes = this.#batch.longestBytes;
  }

  /** Bytes of messages that wait for the end of this turn. */
  get bytes(): number {
    return this.#batch.bytes;
  }

  /** Sends a message of at most `maxMessageBytes` if it is the answer to one that is being handled, and short. If not, nothing was done. */
  answer(data: Uint8Array): boolean {
    return (
      this.#waiting === NOTHING &&
      data.length <= this.#longestBytes &&
      this.#session.sendShort(data, this.#batch)
    );
  }

  /** Takes a message; `false` where there is no room. A lease has room for the header before it. */
  submit(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    if (this.answer(data)) return true;
    const batch = this.#batch;
    const { length } = data;
    if (this.#waiting === NOTHING) this.#waiting = FLUSH; // nothing overtakes this one
    if (batch.count > 0) {
      if (batch.fits(length)) {
        batch.add(data);
        return true;
      }
      this.flush();
    }
    if (!this.#session.hasRoom) return false;
    if (length <= this.#longestBytes) {
      batch.add(data);
      if (!this.#scheduled && this.#waiting === END_OF_TURN) {
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
    this.#waiting = single && this.#batch.count === 0 ? NOTHING : FLUSH;
  }

  /** What was taken leaves now, as far as the path lets it. */
  flush(): void {
    this.#waiting = END_OF_TURN;
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
