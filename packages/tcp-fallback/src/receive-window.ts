import { chargeOf } from './frame.js';
import { protocolError } from './protocol-error.js';

/**
 * The receiver's side of flow control. The peer may send DATA and DATA_PIECE frames, each charged with its payload and
 * a fixed overhead, as far as its credit goes. The credit starts at the window, and this side raises it with WINDOW
 * frames as the application takes messages, up to
 *
 *     window - what whole messages hold that the application has not taken
 *
 * The bytes of the one message under assembly count as taken when they come, so that a message longer than the
 * window gets through; when it is whole it counts like any other, and the credit stands still until it is taken. So
 * an application that does not read makes this side hold twice the window and one message at most.
 */
export class ReceiveWindow {
  readonly #windowBytes: number;
  /** Few WINDOW frames, but the first of them long before the peer must wait. */
  readonly #thresholdBytes: number;
  /** What the peer may still send. */
  #credit: number;
  #held = 0;

  constructor(windowBytes: number) {
    this.#windowBytes = windowBytes;
    this.#thresholdBytes = windowBytes >>> 2;
    this.#credit = windowBytes;
  }

  /**
   * A frame comes, a whole message or a piece of one. Answers its charge.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL` when the peer sent more than it was granted.
   */
  charge(payloadBytes: number): number {
    const charge = chargeOf(payloadBytes);
    this.#credit -= charge;
    if (this.#credit < 0) {
      throw protocolError(`it sent ${-this.#credit} bytes more than the receive window allows`);
    }
    return charge;
  }

  /** A whole message waits for the application. */
  hold(bytes: number): void {
    this.#held += bytes;
  }

  /** The application has taken it. Answers whether it is time to grant. */
  release(bytes: number): boolean {
    this.#held -= bytes;
    return this.#windowBytes - this.#held - this.#credit >= this.#thresholdBytes;
  }

  /** What to grant now, in bytes, and 0 while it is not time; it counts as granted. */
  takeGrant(): number {
    const bytes = this.#windowBytes - this.#held - this.#credit;
    if (bytes < this.#thresholdBytes) return 0;
    this.#credit += bytes;
    return bytes;
  }
}
