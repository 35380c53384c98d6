import { FRAME_CHARGE_BYTES } from './frame.js';

/** The sender's side of flow control: what the peer's receive window still lets us send, in bytes and charges. */
export class SendCredit {
  #available: number;
  readonly #windowBytes: number;

  constructor(windowBytes: number) {
    this.#available = windowBytes;
    this.#windowBytes = windowBytes;
  }

  /** The longest payload that may be sent now; below 0 when not even an empty frame may. */
  get payloadBytes(): number {
    return this.#available - FRAME_CHARGE_BYTES;
  }

  /** A frame with so much payload is sent. */
  take(payloadBytes: number): void {
    this.#available -= payloadBytes + FRAME_CHARGE_BYTES;
  }

  /** The peer granted more. `false`: more than its own window, which it cannot mean; nothing was done. */
  grant(bytes: number): boolean {
    if (this.#available + bytes > this.#windowBytes) return false;
    this.#available += bytes;
    return true;
  }
}
