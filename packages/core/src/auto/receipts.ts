import { ENTRY_BYTES } from './batch.js';
import {
  expand,
  FrameKind,
  getUint32,
  HEADER_BYTES,
  messagesOf,
  protocolError,
  putUint32,
} from './frames.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_HEADER_BYTES = HEADER_BYTES;

/** What each message counts in the window beside its bytes, so that empty ones are bounded too. */
export const MESSAGE_OVERHEAD_BYTES = 64;
const OWN_OVERHEAD_BYTES = MESSAGE_OVERHEAD_BYTES;

/**
 * The receiving half of a session: which frame is the next, what the application has taken, and what of it the peer knows. The session
 * extends it, so that all that a message changes lies in one object.
 */
export abstract class Receipts {
  /** What may come before it is consumed: nothing more when the peer has said CLOSE. */
  protected _receiveWindowBytes = 0;
  /** After so much the peer is told, if no frame has taken it along. */
  protected readonly _dueBytes: number = 0;
  /** The number of the last frame that has come. */
  protected _received = 0;
  /** What the application has taken, of all that was ever charged, as on the wire: 32 bits. */
  protected _consumed = 0;
  /** What was charged for messages that the application has not taken. */
  protected _waiting = 0;
  /** What it has taken since the peer was told. */
  protected _untoldConsumed = 0;
  /** What has come since then, but for what was taken at once. */
  #untoldBytes = 0;
  protected _untold = false;
  /** Whether the peer is to be told without waiting for a frame that goes there anyway: never but where something is untold. */
  protected _due = false;

  constructor(windowBytes: number, firstNumber: number) {
    this._receiveWindowBytes = windowBytes;
    this._dueBytes = windowBytes / 4;
    this._received = firstNumber;
  }

  /** Whether the peer does not know yet all that it could be told. */
  get untold(): boolean {
    return this._untold;
  }

  /**
   * A numbered frame of `bytes` bytes has come, at `at` in `memory`. Answers whether it is the next one.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`
   */
  protected _receive(memory: Uint8Array, at: number, bytes: number): boolean {
    const next = this._received + 1;
    const number = expand(getUint32(memory, at + 4), next);
    if (number < next) return false;
    if (number > next) throw protocolError(`frame ${number} came where ${next} was due`);
    const kind = memory[at] as number;
    const messages = messagesOf(memory, at);
    if (messages > 0) {
      if (this._waiting + this._untoldConsumed >= this._receiveWindowBytes)
        throw protocolError(this.#closed ? 'it sent a message after its CLOSE' : 'it sent beyond its window');
      this._waiting += chargeOf(kind, bytes, messages);
    } else if (this.#closed && kind !== FrameKind.ANSWER)
      throw protocolError(`a frame of kind ${kind} came after its CLOSE`);
    if (kind === FrameKind.CLOSE) this._receiveWindowBytes = 0;
    this._received = next;
    this._untold = true;
    this.#untoldBytes += bytes;
    // The sender of a CLOSE waits for the word that it has come.
    if (this.#untoldBytes >= this._dueBytes || kind === FrameKind.CLOSE) this._due = true;
    return true;
  }

  /** The application is done with a message of so many bytes. Answers whether the peer is to be told now. */
  protected _consume(bytes: number): boolean {
    const charge = bytes + OWN_OVERHEAD_BYTES;
    this._waiting -= charge;
    this._consumed = (this._consumed + charge) | 0;
    this._untoldConsumed += charge;
    this._untold = true;
    if (this._untoldConsumed < this._dueBytes) return false;
    this._due = true;
    return true;
  }

  /** Writes into the header of a frame that leaves now what there is to be told. */
  protected _stamp(frame: Uint8Array): void {
    putUint32(frame, 8, this._received);
    putUint32(frame, 12, this._consumed);
    this._told();
  }

  /** The peer is told all that there is. */
  protected _told(): void {
    this._untoldConsumed = 0;
    this.#untoldBytes = 0;
    this._untold = false;
    this._due = false;
  }

  get #closed(): boolean {
    return this._receiveWindowBytes === 0;
  }
}

/** What a frame with so many messages counts in the window. */
export function chargeOf(kind: number, frameBytes: number, messages: number): number {
  const entries = kind === FrameKind.BATCH ? messages * ENTRY_BYTES : 0;
  return frameBytes - OWN_HEADER_BYTES - entries + messages * OWN_OVERHEAD_BYTES;
}
