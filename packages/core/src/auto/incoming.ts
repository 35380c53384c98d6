import type { Message } from '../contract/message.js';
import { ENTRY_BYTES } from './batch.js';
import { FrameKind, getUint32, HEADER_BYTES, protocolError } from './frames.js';

export interface IncomingHooks {
  /** Whether the application handles the next message before `deliver` returns. */
  handlesAtOnce(): boolean;
  deliver(data: Uint8Array, token: number): void;
}

/** The token of a message that lies in the memory of the frame that is being handled. */
const CURRENT = 0;
/** That of one whose memory is its own. Higher ones name a frame that is kept below. */
const OWN = 1;

/**
 * Makes messages of frames. One that is handled at once is a view of the frame. For one that waits, a batch is copied and a
 * long frame kept, so that what waits here never occupies the connection below.
 */
export class Incoming {
  readonly #hooks: IncomingHooks;
  readonly #maxMessageBytes: number;
  readonly #kept = new Map<number, Message>();
  #tokens = OWN;
  #current: Message | undefined;

  constructor(maxMessageBytes: number, hooks: IncomingHooks) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#hooks = hooks;
  }

  /** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  frame(message: Message, frame: Uint8Array): void {
    this.#current = message;
    try {
      if (frame[0] === FrameKind.BATCH) this.#batch(frame);
      else this.#single(message, frame);
    } finally {
      this.#current = undefined;
    }
  }

  release(token: number): void {
    if (token <= OWN) return;
    this.#kept.get(token)?.release();
    this.#kept.delete(token);
  }

  /** Bytes that stay valid without anything below. */
  retain(token: number, data: Uint8Array): Uint8Array {
    if (token === CURRENT && data.length > COPIED_BYTES && this.#current !== undefined)
      return this.#current.retain().data.subarray(HEADER_BYTES);
    if (token > OWN) {
      this.#kept.delete(token);
      return data;
    }
    return new Uint8Array(data);
  }

  #single(message: Message, frame: Uint8Array): void {
    this.#checkLength(frame.length - HEADER_BYTES);
    if (messagesOf(frame) !== 1)
      throw protocolError('a frame of one message says that it has another number');
    if (this.#hooks.handlesAtOnce()) {
      this.#hooks.deliver(frame.subarray(HEADER_BYTES), CURRENT);
      return;
    }
    const token = ++this.#tokens;
    message.retain();
    this.#kept.set(token, message);
    this.#hooks.deliver(message.data.subarray(HEADER_BYTES), token);
  }

  #batch(frame: Uint8Array): void {
    const end = frame.length;
    let own: Uint8Array | undefined;
    let at = HEADER_BYTES;
    let count = 0;
    while (at < end) {
      count++;
      const start = at + ENTRY_BYTES;
      const length = start <= end ? getUint32(frame, at) : end;
      at = start + length;
      if (at > end) throw protocolError('a batch ends in the middle of a message');
      this.#checkLength(length);
      if (this.#hooks.handlesAtOnce()) this.#hooks.deliver(frame.subarray(start, at), CURRENT);
      else {
        own ??= new Uint8Array(frame);
        this.#hooks.deliver(own.subarray(start, at), OWN);
      }
    }
    if (count !== messagesOf(frame))
      throw protocolError('a batch has another number of messages than it says');
  }

  #checkLength(bytes: number): void {
    if (bytes > this.#maxMessageBytes) throw protocolError(`a message of ${bytes} bytes is too long`);
  }
}

/** Shorter messages are copied when they are retained, so that they do not keep a whole batch. */
const COPIED_BYTES = 4096;

/** How many messages a frame says that it has. */
function messagesOf(frame: Uint8Array): number {
  return getUint32(frame, 0) >>> 16;
}
