import { keepInPlace } from '../contract/memory-in-place.js';
import type { Message } from '../contract/message.js';
import { markReused } from '../contract/reused-memory.js';
import { ENTRY_BYTES, MAX_BATCH_BYTES } from './batch.js';
import { FrameKind, getUint32, HEADER_BYTES, messagesOf, protocolError } from './frames.js';

export interface IncomingHooks {
  /** Whether the application handles the next message before `deliver` returns. */
  handlesAtOnce(): boolean;
  deliver(data: Uint8Array, token: number): void;
  /** Delivers one that is `CURRENT` if it is handled at once, and answers whether it was. Credit for it is given then. */
  handle(data: Uint8Array): boolean;
  /** The peer may send as much again. */
  consumed(bytes: number): void;
}

/** The token of a message that lies in the memory of the frame that is being handled, which cannot be kept. */
export const CURRENT = 0;
/** That of one whose memory is its own. Higher ones name a frame of one message. */
export const OWN = 1;

/** A frame of one message that the application has. */
interface Held {
  /** What is given back below when the message is released. */
  readonly below: Message;
  /** Whether the peer has been given credit for it. */
  credited: boolean;
}

/**
 * Makes messages of frames. One that is handled at once is a view of the frame. For one that waits, a batch is copied and a
 * long frame kept, so that what waits here never occupies the connection below.
 */
export class Incoming {
  readonly #hooks: IncomingHooks;
  readonly #maxMessageBytes: number;
  readonly #maxBatchBytes: number;
  readonly #held = new Map<number, Held>();
  #tokens = OWN;

  /** @param frameBytes the longest frame that every path takes. */
  constructor(maxMessageBytes: number, frameBytes: number, hooks: IncomingHooks) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#maxBatchBytes = Math.min(MAX_BATCH_BYTES, frameBytes);
    this.#hooks = hooks;
  }

  /** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  frame(frame: Uint8Array): void {
    if (frame[0] === FrameKind.BATCH) this.#batch(frame);
    else {
      this.#checkSingle(frame);
      const data = frame.subarray(HEADER_BYTES);
      if (!this.#hooks.handle(data)) this.#hooks.deliver(new Uint8Array(data), OWN);
    }
  }

  /** A frame of one message, whose memory can be kept. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  longFrame(lease: Message): void {
    this.#checkSingle(lease.data);
    if (!this.#hooks.handlesAtOnce()) {
      lease.retain();
      markReused(lease.data.buffer); // it was not the application that kept it: its lease ends as always
    }
    const token = ++this.#tokens;
    this.#held.set(token, { below: lease, credited: false });
    this.#hooks.deliver(lease.data.subarray(HEADER_BYTES), token);
  }

  /** The application is done with a message that came in a frame of its own. */
  release(token: number, bytes: number): void {
    const held = this.#held.get(token);
    if (held === undefined) return;
    this.#held.delete(token);
    held.below.release();
    if (!held.credited) this.#hooks.consumed(bytes);
  }

  /** The application keeps a message: the peer may send as much again at once. */
  retain(token: number, data: Uint8Array): Uint8Array | undefined {
    if (token === CURRENT) return new Uint8Array(data);
    this.#hooks.consumed(data.length);
    const held = this.#held.get(token);
    if (held === undefined) return new Uint8Array(data);
    held.credited = true;
    const kept = held.below.retain().data.subarray(HEADER_BYTES);
    if (kept.buffer === data.buffer && kept.byteOffset === data.byteOffset) return undefined;
    this.#held.delete(token); // it was moved out of what is scarce below, and is nobody's any more
    return kept;
  }

  #batch(frame: Uint8Array): void {
    const hooks = this.#hooks;
    const { buffer, byteOffset, length: end } = frame;
    if (end > this.#maxBatchBytes) throw protocolError(`a batch of ${end} bytes is too long`);
    let own: Uint8Array | undefined;
    let count = 0;
    for (let at = HEADER_BYTES; at < end; count++) {
      const first = at + ENTRY_BYTES;
      const length = first <= end ? getUint32(frame, at) : end;
      at = first + length;
      if (at > end) throw protocolError('a batch ends in the middle of a message');
      this.#checkLength(length);
      // What one message lies in must not be taken away from those behind it.
      if (count === 0 && at < end) keepInPlace(buffer);
      if (!hooks.handle(new Uint8Array(buffer, byteOffset + first, length))) {
        own ??= ownMemory(frame);
        hooks.deliver(own.subarray(first, at), OWN);
      }
    }
    if (count === 0 || count !== messagesOf(frame, 0))
      throw protocolError('a batch has another number of messages than it says');
  }

  #checkSingle(frame: Uint8Array): void {
    this.#checkLength(frame.length - HEADER_BYTES);
    if (messagesOf(frame, 0) !== 1)
      throw protocolError('a frame of one message says that it has another number');
  }

  #checkLength(bytes: number): void {
    if (bytes > this.#maxMessageBytes) throw protocolError(`a message of ${bytes} bytes is too long`);
  }
}

/** A copy of a frame for several messages, none of which may be given away with the others. */
function ownMemory(frame: Uint8Array): Uint8Array {
  const copy = frame.slice();
  keepInPlace(copy.buffer);
  return copy;
}
