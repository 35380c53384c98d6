import type { FrameVerdict } from './faults.js';
import type { Frame } from './frames.js';

export interface WireEnds {
  /** What becomes of the next frame. */
  judge(frame: Frame): FrameVerdict;
  /** The other end gets it. */
  deliver(frame: Frame): void;
  /** It has left this end, whether it was delivered or dropped. */
  departed(frame: Frame): void;
  /** A batch has left. */
  idle(): void;
  /** The connection is to be lost on both sides. */
  lose(): void;
}

/**
 * One direction of a memory connection. Frames are delivered in order and never within the call that sent them, a
 * batch for each turn of the event loop, as from a socket.
 */
export class Wire {
  readonly #ends: WireEnds;
  #frames: Frame[] = [];
  #scheduled = false;
  #held = false;
  #ended = false;

  constructor(ends: WireEnds) {
    this.#ends = ends;
  }

  get empty(): boolean {
    return this.#frames.length === 0;
  }

  push(frame: Frame): void {
    if (this.#ended) return;
    this.#frames.push(frame);
    this.#schedule();
  }

  /** Nothing but `last` leaves any more; answers with what had not left. */
  end(last: Frame | undefined): Frame[] {
    const left = this.#frames.splice(0);
    if (last !== undefined) this.push(last);
    this.#ended = true;
    return left;
  }

  #schedule(): void {
    if (this.#held || this.#scheduled || this.empty) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    for (let left = this.#frames.length; left > 0; left--) {
      const frame = this.#frames.shift();
      if (frame === undefined) break; // the connection was ended by one of those before
      const verdict = this.#ends.judge(frame);
      if (verdict === 'lose') {
        this.#frames.unshift(frame); // it is among what has not left
        this.#ends.lose();
        return;
      }
      if (typeof verdict === 'object') {
        this.#hold(frame, verdict);
        return;
      }
      this.#pass(frame, verdict === 'deliver');
    }
    this.#ends.idle();
    this.#schedule();
  }

  #pass(frame: Frame, deliver: boolean): void {
    if (deliver) this.#ends.deliver(frame);
    this.#ends.departed(frame);
  }

  #hold(frame: Frame, until: Promise<void>): void {
    this.#held = true;
    this.#frames.unshift(frame);
    void until.then(() => {
      this.#held = false;
      if (this.#frames[0] === frame) {
        this.#frames.shift();
        this.#pass(frame, true); // it was judged before it had to wait
      }
      this.#ends.idle();
      this.#schedule();
    });
  }
}
