import type { Message } from '../contract/message.js';
import { ENTRY_BYTES } from './batch.js';
import { FrameKind, getUint32, HEADER_BYTES, protocolError } from './frames.js';

export interface IncomingHooks {
  /** Whether the application handles the next message before `deliver` returns. */
  handlesAtOnce(): boolean;
  deliver(data: Uint8Array, token: number): void;
  /** Both in one, for the many: delivers it if it is handled at once, and answers whether it was. */
  handle(data: Uint8Array, token: number): boolean;
  /** The peer may send as much again. */
  consumed(bytes: number): void;
}

/** The token of a message of a batch that lies in the memory of the frame that is being handled. */
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
  frame(message: Message, frame: Uint8Array): void {
    if (frame[0] === FrameKind.BATCH) this.#batch(frame);
    else this.#single(message, frame);
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
    if (held === undefined) return new Uint8Array(data); // a part of a batch: it must not keep the rest
    held.credited = true;
    const kept = held.below.retain().data.subarray(HEADER_BYTES);
    if (kept.buffer === data.buffer && kept.byteOffset === data.byteOffset) return undefined;
    this.#held.delete(token); // it was moved out of what is scarce below, and is nobody's any more
    return kept;
  }

  #single(message: Message, frame: Uint8Array): void {
    this.#checkLength(frame.length - HEADER_BYTES);
    if (messagesOf(frame) !== 1)
      throw protocolError('a frame of one message says that it has another number');
    if (!this.#hooks.handlesAtOnce()) message.retain();
    const token = ++this.#tokens;
    this.#held.set(token, { below: message, credited: false });
    this.#hooks.deliver(message.data.subarray(HEADER_BYTES), token);
  }

  #batch(frame: Uint8Array): void {
    const hooks = this.#hooks;
    const end = frame.length;
    let own: Uint8Array | undefined;
    let count = 0;
    for (let at = HEADER_BYTES; at < end; count++) {
      const start = at + ENTRY_BYTES;
      const length = start <= end ? getUint32(frame, at) : end;
      at = start + length;
      if (at > end) throw protocolError('a batch ends in the middle of a message');
      this.#checkLength(length);
      if (!hooks.handle(frame.subarray(start, at), CURRENT)) {
        own ??= new Uint8Array(frame);
        hooks.deliver(own.subarray(start, at), OWN);
      }
    }
    if (count !== messagesOf(frame))
      throw protocolError('a batch has another number of messages than it says');
  }

  #checkLength(bytes: number): void {
    if (bytes > this.#maxMessageBytes) throw protocolError(`a message of ${bytes} bytes is too long`);
  }
}

/** How many messages a frame says that it has. */
function messagesOf(frame: Uint8Array): number {
  return getUint32(frame, 0) >>> 16;
}
