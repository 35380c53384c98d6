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

/** The receiving half of a session: which frame is the next, what the application has taken, and what of it the peer knows. */
export class Receipts {
  /** What may come before it is consumed: nothing more when the peer has said CLOSE. */
  #windowBytes: number;
  /** After so much the peer is told, if no frame has taken it along. */
  readonly #dueBytes: number;
  /** The number of the last frame that has come. */
  received: number;
  /** All that was ever charged for messages that came. */
  #charged = 0;
  /** What the application has taken of it. */
  consumed = 0;
  #receivedBytes = 0;
  /** What the peer was told last. */
  #toldReceivedBytes = 0;
  #toldConsumed = 0;
  /** Whether the peer does not know yet all that it could be told. */
  untold = false;
  /** Whether it is to be told without waiting for a frame that goes there anyway: never but where something is untold. */
  due = false;

  constructor(windowBytes: number, firstNumber: number) {
    this.#windowBytes = windowBytes;
    this.#dueBytes = windowBytes / 4;
    this.received = firstNumber;
  }

  /**
   * A numbered frame of `bytes` bytes has come, at `at` in `memory`. Answers whether it is the next one.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`
   */
  accept(memory: Uint8Array, at: number, bytes: number): boolean {
    const next = this.received + 1;
    const number = expand(getUint32(memory, at + 4), next);
    if (number < next) return false;
    if (number > next) throw protocolError(`frame ${number} came where ${next} was due`);
    const kind = memory[at] as number;
    const messages = messagesOf(memory, at);
    if (messages > 0) {
      if (this.#charged - this.#toldConsumed >= this.#windowBytes)
        throw protocolError(this.#closed ? 'it sent a message after its CLOSE' : 'it sent beyond its window');
      this.#charged += chargeOf(kind, bytes, messages);
    } else if (this.#closed && kind !== FrameKind.ANSWER)
      throw protocolError(`a frame of kind ${kind} came after its CLOSE`);
    if (kind === FrameKind.CLOSE) this.#windowBytes = 0;
    this.received = number;
    this.untold = true;
    this.#receivedBytes += bytes;
    // The sender of a CLOSE waits for the word that it has come.
    if (this.#receivedBytes - this.#toldReceivedBytes >= this.#dueBytes || kind === FrameKind.CLOSE)
      this.due = true;
    return true;
  }

  /**
   * `accept` and `consume` in one, for a frame of `bytes` bytes with one message that is handled at once; `number` as on the wire.
   * `false`: it is not the next, or one too many, and nothing was done.
   */
  handle(number: number, bytes: number): boolean {
    const next = this.received + 1;
    if (((number - next) | 0) !== 0 || this.#charged - this.#toldConsumed >= this.#windowBytes) return false;
    const charge = bytes - OWN_HEADER_BYTES + OWN_OVERHEAD_BYTES;
    this.#charged += charge;
    this.consumed += charge; // more than `bytes`: so this becomes due before them
    this.received = next;
    this.untold = true;
    this.#receivedBytes += bytes;
    if (this.consumed - this.#toldConsumed >= this.#dueBytes) this.due = true;
    return true;
  }

  get #closed(): boolean {
    return this.#windowBytes === 0;
  }

  /** The application is done with a message of so many bytes. Answers whether the peer is to be told now. */
  consume(bytes: number): boolean {
    this.consumed += bytes + OWN_OVERHEAD_BYTES;
    this.untold = true;
    if (this.consumed - this.#toldConsumed < this.#dueBytes) return false;
    this.due = true;
    return true;
  }

  /** Writes into the header of a frame that leaves now, at `at` in `memory`, what there is to be told. */
  stamp(memory: Uint8Array, at = 0): void {
    putUint32(memory, at + 8, this.received);
    putUint32(memory, at + 12, this.consumed);
    this.told();
  }

  /** The peer is told all that there is. */
  told(): void {
    this.#toldReceivedBytes = this.#receivedBytes;
    this.#toldConsumed = this.consumed;
    this.untold = false;
    this.due = false;
  }
}

/** What a frame with so many messages counts in the window. */
export function chargeOf(kind: number, frameBytes: number, messages: number): number {
  const entries = kind === FrameKind.BATCH ? messages * ENTRY_BYTES : 0;
  return frameBytes - OWN_HEADER_BYTES - entries + messages * OWN_OVERHEAD_BYTES;
}
