import type { VerbmqError } from '@verbmq/core';
import { Fifo, messageGone } from '@verbmq/core/transport-kit';
import { FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES } from './frame.js';
import type { SendCredit } from './send-credit.js';
import type { Waiter, WriteBuilder } from './write-builder.js';

/**
 * Messages up to so many bytes are copied into the batch. Beyond it, handing the kernel one more piece of memory costs
 * less than the copy.
 */
export const COPY_LIMIT_BYTES = 16 * 1024;

/** A long message does not leave in shorter pieces than this when the peer's window is nearly used up. */
const MIN_PIECE_BYTES = 4 * 1024;

/** What a message counts for while it waits, beside its payload. */
const QUEUED_OVERHEAD_BYTES = HEADER_BYTES;

interface QueuedMessage {
  /** `undefined`: no message, but the CLOSE frame behind all of them. */
  readonly data: Uint8Array | undefined;
  /** The length of the data when they came: those of the application may be transferred or resized while they wait. */
  readonly bytes: number;
  sentBytes: number;
  /** Who waits for the memory. */
  readonly waiter: Waiter | undefined;
}

/** The longest payload that the peer's window must admit before a message of this length may begin. */
export function firstPayloadBytes(length: number): number {
  return length <= COPY_LIMIT_BYTES ? length : MIN_PIECE_BYTES;
}

/** Messages in order that could not leave at once: long ones, which leave in pieces, and all that come behind them. */
export class MessageLane {
  readonly #queue = new Fifo<QueuedMessage>();
  readonly #credit: SendCredit;
  readonly #dropped: (mayGoOn: boolean) => void;
  /** What waits, in bytes. */
  bytes = 0;

  /** @param dropped a message is not sent, for its memory is gone; unless the connection may go on, a part of it was, or it was taken */
  constructor(credit: SendCredit, dropped: (mayGoOn: boolean) => void) {
    this.#credit = credit;
    this.#dropped = dropped;
  }

  get empty(): boolean {
    return this.#queue.length === 0;
  }

  push(data: Uint8Array, waiter: Waiter | undefined): void {
    const bytes = data.length;
    this.bytes += bytes + QUEUED_OVERHEAD_BYTES;
    this.#queue.push({ data, bytes, sentBytes: 0, waiter });
  }

  /** No message follows any more: says so behind those that wait. */
  pushClose(): void {
    this.bytes += QUEUED_OVERHEAD_BYTES;
    this.#queue.push({ data: undefined, bytes: 0, sentBytes: 0, waiter: undefined });
  }

  /** Adds the next piece to the write. `false`: nothing waits, or it must wait for credit or for the next write. */
  gather(builder: WriteBuilder): boolean {
    let message = this.#queue.peek();
    while (message?.data !== undefined && message.data.length !== message.bytes) {
      this.#drop(message);
      message = this.#queue.peek();
    }
    if (message === undefined || !builder.hasRoom(4 * HEADER_BYTES)) return false;
    const { data } = message;
    if (data === undefined) {
      builder.header(FrameType.CLOSE, 0);
      this.#end();
      return true;
    }
    return data.byteLength <= COPY_LIMIT_BYTES
      ? this.#gatherWhole(message, data, builder)
      : this.#gatherPiece(message, data, builder);
  }

  /** The connection is dead; who waits is told. Those of whose memory a part was given to the socket are answered instead. */
  fail(error: VerbmqError): Waiter[] {
    const begun: Waiter[] = [];
    for (const { waiter, sentBytes } of this.#queue.takeAll()) {
      if (waiter !== undefined && sentBytes > 0) begun.push(waiter);
      else waiter?.reject(error);
    }
    this.bytes = 0;
    return begun;
  }

  #gatherWhole(message: QueuedMessage, data: Uint8Array, builder: WriteBuilder): boolean {
    const length = data.byteLength;
    if (length > this.#credit.payloadBytes || !builder.fits(length)) return false;
    this.#credit.take(length);
    builder.frame(FrameType.DATA, data);
    this.bytes -= length;
    this.#end();
    message.waiter?.resolve();
    return true;
  }

  #gatherPiece(message: QueuedMessage, data: Uint8Array, builder: WriteBuilder): boolean {
    const missing = data.byteLength - message.sentBytes;
    const bytes = Math.min(missing, MAX_PAYLOAD_BYTES, this.#credit.payloadBytes);
    if (bytes < Math.min(missing, MIN_PIECE_BYTES)) return false;
    if (message.sentBytes === 0) {
      builder.header(FrameType.DATA_BEGIN, 4);
      builder.uint32(data.byteLength);
    }
    this.#credit.take(bytes);
    builder.header(FrameType.DATA_PIECE, bytes);
    builder.borrow(data.subarray(message.sentBytes, message.sentBytes + bytes));
    message.sentBytes += bytes;
    this.bytes -= bytes;
    if (bytes < missing) return true;
    this.#end();
    if (message.waiter !== undefined) builder.wait(message.waiter);
    return true;
  }

  #drop({ bytes, sentBytes, waiter }: QueuedMessage): void {
    this.bytes -= bytes - sentBytes;
    this.#end();
    waiter?.reject(messageGone());
    this.#dropped(waiter !== undefined && sentBytes === 0);
  }

  #end(): void {
    this.bytes -= QUEUED_OVERHEAD_BYTES;
    this.#queue.shift();
  }
}
