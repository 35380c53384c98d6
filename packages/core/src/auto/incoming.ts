import type { Message } from '../contract/message.js';
import { markReused } from '../contract/reused-memory.js';
import { ENTRY_BYTES } from './batch.js';
import { FrameKind, getUint32, HEADER_BYTES, messagesOf, protocolError } from './frames.js';

export interface IncomingHooks {
  /** Whether the application handles the next message before `deliver` returns. */
  handlesAtOnce(): boolean;
  deliver(data: Uint8Array, token: number): void;
  /** Both in one, for the many: delivers it if it is handled at once, and answers whether it was. */
  handle(data: Uint8Array, token: number): boolean;
  /** The peer may send as much again. */
  consumed(bytes: number): void;
}

/** The token of a message that lies in the memory of the frame that is being handled, which cannot be kept. */
const CURRENT = 0;
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
  readonly #held = new Map<number, Held>();
  #tokens = OWN;

  constructor(maxMessageBytes: number, hooks: IncomingHooks) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#hooks = hooks;
  }

  /** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  frame(memory: Uint8Array, at: number, end: number, buffer: ArrayBufferLike | undefined): void {
    if (memory[at] === FrameKind.BATCH) this.#batch(memory, at, end);
    else {
      const start = at + HEADER_BYTES;
      this.#checkSingle(memory, at, end);
      // With the buffer at hand a view is made in two thirds of the time.
      const data =
        buffer === undefined ? memory.subarray(start, end) : new Uint8Array(buffer, start, end - start);
      if (!this.#hooks.handle(data, CURRENT)) this.#hooks.deliver(new Uint8Array(data), OWN);
    }
  }

  /** A frame of one message, whose memory can be kept. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  longFrame(lease: Message): void {
    this.#checkSingle(lease.data, 0, lease.data.length);
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
    this.#hooks.consumed(data.length);
    const held = this.#held.get(token);
    if (held === undefined) return new Uint8Array(data);
    held.credited = true;
    const kept = held.below.retain().data.subarray(HEADER_BYTES);
    if (kept.buffer === data.buffer && kept.byteOffset === data.byteOffset) return undefined;
    this.#held.delete(token); // it was moved out of what is scarce below, and is nobody's any more
    return kept;
  }

  #batch(memory: Uint8Array, start: number, end: number): void {
    const hooks = this.#hooks;
    const { buffer, byteOffset } = memory;
    let own: Uint8Array | undefined;
    let count = 0;
    for (let at = start + HEADER_BYTES; at < end; count++) {
      const first = at + ENTRY_BYTES;
      const length = first <= end ? getUint32(memory, at) : end;
      at = first + length;
      if (at > end) throw protocolError('a batch ends in the middle of a message');
      this.#checkLength(length);
      if (!hooks.handle(new Uint8Array(buffer, byteOffset + first, length), CURRENT)) {
        own ??= memory.slice(start, end);
        hooks.deliver(own.subarray(first - start, at - start), OWN);
      }
    }
    if (count !== messagesOf(memory, start))
      throw protocolError('a batch has another number of messages than it says');
  }

  #checkSingle(memory: Uint8Array, at: number, end: number): void {
    this.#checkLength(end - at - HEADER_BYTES);
    if (messagesOf(memory, at) !== 1)
      throw protocolError('a frame of one message says that it has another number');
  }

  #checkLength(bytes: number): void {
    if (bytes > this.#maxMessageBytes) throw protocolError(`a message of ${bytes} bytes is too long`);
  }
}
