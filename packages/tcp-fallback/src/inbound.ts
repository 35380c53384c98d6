import type { VerbmqError } from '@verbmq/core';
import { Assembly } from './assembly.js';
import { chargeOf, FrameType } from './frame.js';
import type { FrameSink } from './frame-parser.js';
import { COPY_LIMIT_BYTES } from './message-lane.js';
import { viewOf } from './one-sided-frames.js';
import type { OneSidedOwner } from './one-sided-owner.js';
import type { OneSidedRequester } from './one-sided-requester.js';
import type { Outbound } from './outbound.js';
import { protocolError } from './protocol-error.js';
import type { ReceiveWindow } from './receive-window.js';

export interface InboundHooks {
  /** A whole message has come; `charge` of the receive window is held by it. */
  message(data: Uint8Array, charge: number): void;
  /** The same, for a message in `memory` of message-memory.ts, where it goes back to when the lease ends. */
  lentMessage(data: Uint8Array, memory: ArrayBuffer): void;
  peerClosed(): void;
  peerAborted(code: number, reason: string): void;
}

/** What comes in: judges each frame, puts messages together, and hands everything to whom it concerns. */
export class Inbound implements FrameSink {
  readonly #hooks: InboundHooks;
  #maxMessageBytes: number;
  /** The longest frame of any kind: a limit only for strangers. */
  #maxFrameBytes = Number.POSITIVE_INFINITY;
  readonly #window: ReceiveWindow;
  readonly #outbound: Outbound;
  readonly #requester: OneSidedRequester;
  readonly #owner: OneSidedOwner;
  /** The message that comes in pieces. */
  #assembly: Assembly | undefined;
  #closed = false;
  /** Neither of the two: a message may begin. */
  #mayBegin = true;

  constructor(
    hooks: InboundHooks,
    maxMessageBytes: number,
    window: ReceiveWindow,
    outbound: Outbound,
    requester: OneSidedRequester,
    owner: OneSidedOwner,
  ) {
    this.#hooks = hooks;
    this.#maxMessageBytes = maxMessageBytes;
    this.#window = window;
    this.#outbound = outbound;
    this.#requester = requester;
    this.#owner = owner;
  }

  /** Messages, and frames of any kind, may be no longer than this for now. */
  limit(bytes: number): void {
    this.#maxMessageBytes = Math.min(this.#maxMessageBytes, bytes);
    this.#maxFrameBytes = bytes;
  }

  /** That is over: messages may be so long. */
  lift(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes;
    this.#maxFrameBytes = Number.POSITIVE_INFINITY;
  }

  /** Gives up the message that was not complete. */
  discard(): void {
    this.#assembly?.end();
    this.#assembly = undefined;
    this.#mayBegin = false;
  }

  message(data: Uint8Array): void {
    const { length } = data;
    if (this.#mayBegin && length <= this.#maxMessageBytes) {
      const charge = this.#window.charge(length);
      this.#window.hold(charge);
      this.#hooks.message(data, charge);
    } else this.#assertMayBegin(length); // which says why not
  }

  begin(type: number, length: number): void {
    if (length > this.#maxFrameBytes)
      throw protocolError(`a frame of ${length} bytes came where ${this.#maxFrameBytes} are accepted`);
    switch (type) {
      case FrameType.DATA:
        this.#assertMayBegin(length);
        this.#window.charge(length);
        return;
      case FrameType.DATA_PIECE: {
        const missing = this.#assembly?.missing;
        if (missing === undefined) throw protocolError('a piece came that belongs to no message');
        if (length > missing)
          throw protocolError(`a piece of ${length} bytes came where ${missing} were missing`);
        this.#window.charge(length);
        return;
      }
      case FrameType.READ_ANSWER:
      case FrameType.WRITE_ANSWER:
      case FrameType.ATOMIC_ANSWER:
        this.#requester.begin(type, length);
    }
  }

  frame(type: number, payload: Uint8Array): void {
    switch (type) {
      case FrameType.DATA:
        this.#deliver(payload, payload.length);
        return;
      case FrameType.DATA_BEGIN:
        this.#beginAssembly(viewOf(payload).getUint32(0, true));
        return;
      case FrameType.WINDOW:
        if (!this.#outbound.grant(viewOf(payload).getUint32(0, true))) {
          throw protocolError('it granted more than its receive window');
        }
        return;
      case FrameType.PING:
        this.#outbound.pong();
        return;
      case FrameType.PONG:
        return;
      case FrameType.CLOSE:
        if (this.#assembly !== undefined) throw protocolError('it closed within a message');
        if (this.#closed) throw sentAfterClose();
        this.#closed = true;
        this.#mayBegin = false;
        this.#hooks.peerClosed();
        return;
      case FrameType.ABORT: {
        const code = viewOf(payload).getUint16(0, true);
        this.#hooks.peerAborted(code, Buffer.from(payload.subarray(2)).toString('utf8'));
        return;
      }
      case FrameType.WRITE_ANSWER:
      case FrameType.ATOMIC_ANSWER:
        this.#requester.answer(type, payload);
        return;
      default:
        this.#owner.request(type, payload);
    }
  }

  stream(type: number, chunk: Uint8Array, start: number, end: number): void {
    if (type === FrameType.READ_ANSWER) {
      this.#requester.stream(chunk, start, end);
      return;
    }
    const assembly = this.#assembly as Assembly;
    assembly.append(chunk, start, end);
    if (!assembly.complete) return;
    this.#assembly = undefined;
    this.#mayBegin = true;
    const data = assembly.end();
    if (assembly.recycled === undefined) this.#deliver(data, data.length);
    else {
      this.#window.hold(chargeOf(data.length));
      this.#hooks.lentMessage(data, assembly.recycled);
    }
  }

  #deliver(data: Uint8Array, length: number): void {
    const charge = chargeOf(length);
    this.#window.hold(charge);
    this.#hooks.message(data, charge);
  }

  #beginAssembly(length: number): void {
    this.#assertMayBegin(length);
    if (length === 0) throw protocolError('a message of no bytes came in pieces');
    // A short one, which others may send in pieces, would hold more memory than its window counts.
    this.#assembly = new Assembly(length, length > COPY_LIMIT_BYTES);
    this.#mayBegin = false;
  }

  #assertMayBegin(length: number): void {
    if (this.#assembly !== undefined) {
      throw protocolError('a message began before the last one was complete');
    }
    if (this.#closed) throw sentAfterClose();
    if (length > this.#maxMessageBytes) throw this.#tooLong(length);
  }

  #tooLong(length: number): VerbmqError {
    return protocolError(
      `a message of ${length} bytes exceeds the ${this.#maxMessageBytes} that are accepted`,
    );
  }
}

function sentAfterClose(): VerbmqError {
  return protocolError('it sent more after it had closed');
}
