import type { OutgoingLease } from '../contract/outgoing-lease.js';
import { Batch, MAX_BATCH_BYTES, uninitialised } from './batch.js';
import { FrameKind, HEADER_BYTES } from './frames.js';
import type { Session } from './session.js';

/** Makes frames of messages: of short ones together, of a long one by itself. */
export class Outgoing {
  readonly #session: Session;
  readonly #batch: Batch;
  #scheduled = false;
  readonly #flushSoon = (): void => {
    this.#scheduled = false;
    this.flush();
  };

  /** @param frameBytes the longest frame that every path takes. */
  constructor(session: Session, frameBytes: number, highWaterMarkBytes: number) {
    this.#session = session;
    // A batch counts against the high-water mark only when it leaves: so it must be small beside it.
    this.#batch = new Batch(Math.min(MAX_BATCH_BYTES, frameBytes, highWaterMarkBytes / 2));
  }

  /** Bytes of messages that wait for the end of this turn. */
  get bytes(): number {
    return this.#batch.bytes;
  }

  /** Takes a message; `false` where there is no room. A lease has room for the header before it. */
  submit(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    const batch = this.#batch;
    const { length } = data;
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
      if (!this.#scheduled) {
        this.#scheduled = true;
        process.nextTick(this.#flushSoon);
      }
      return true;
    }
    let frame: Uint8Array;
    if (lease === undefined) {
      frame = uninitialised(HEADER_BYTES + length);
      frame.set(data, HEADER_BYTES);
    } else frame = new Uint8Array(data.buffer, 0, HEADER_BYTES + length);
    this.#session.submit(FrameKind.DATA, frame, 1);
    return true;
  }

  /** What was taken leaves now, as far as the path lets it. */
  flush(): void {
    const { count } = this.#batch;
    if (count === 0) return;
    this.#session.submit(FrameKind.BATCH, this.#batch.take(), count);
  }

  /** No frame is kept: their memory is used again. */
  reuse(): void {
    this.#batch.reuse();
  }
}

/** An outgoing lease's memory: room for the header, then for so many bytes. */
export function leaseMemory(bytes: number): Uint8Array {
  return uninitialised(HEADER_BYTES + bytes).subarray(HEADER_BYTES);
}
