import { FRAME_CHARGE_BYTES } from './frame.js';
import { protocolError } from './protocol-error.js';

/**
 * The receiver's side of flow control. The peer may send DATA and DATA_PIECE frames, each charged with its payload and
 * a fixed overhead, up to a limit that starts at the window and that this side raises with WINDOW frames as the
 * application takes messages:
 *
 *     limit = all that was charged so far + window - what whole messages hold that the application has not taken
 *
 * The bytes of the one message under assembly count as taken when they come, so that a message longer than the
 * window gets through; when it is whole it counts like any other, and the limit stands still until it is taken. So
 * an application that does not read makes this side hold twice the window and one message at most.
 */
export class ReceiveWindow {
  readonly #windowBytes: number;
  readonly #threshold: number;
  #limit: number;
  #charged = 0;
  #held = 0;

  constructor(windowBytes: number) {
    this.#windowBytes = windowBytes;
    this.#limit = windowBytes;
    // Few WINDOW frames, but the first of them long before the peer must wait.
    this.#threshold = windowBytes >>> 2;
  }

  /** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` when the peer sent more than it was granted. */
  charge(payloadBytes: number): void {
    this.#charged += payloadBytes + FRAME_CHARGE_BYTES;
    if (this.#charged > this.#limit) {
      throw protocolError(`it sent ${this.#charged - this.#limit} bytes more than the receive window allows`);
    }
  }

  /** A whole message waits for the application. */
  hold(bytes: number): void {
    this.#held += bytes;
  }

  /** The application has taken it. */
  release(bytes: number): void {
    this.#held -= bytes;
  }

  /** Whether it is time to grant. */
  get due(): boolean {
    return this.#charged + this.#windowBytes - this.#held - this.#limit >= this.#threshold;
  }

  /** What to grant now, in bytes; it counts as granted. */
  grant(): number {
    const bytes = this.#charged + this.#windowBytes - this.#held - this.#limit;
    this.#limit += bytes;
    return bytes;
  }
}
