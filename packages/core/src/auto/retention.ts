/**
 * The numbered frames that the peer has not acknowledged, as they stand on the wire, so that sending one again is only
 * writing it again.
 */
export class Retention {
  /** A ring: frame `n` is at `n & mask`. */
  #ring: (Uint8Array | undefined)[] = new Array(INITIAL_SLOTS);
  #mask = INITIAL_SLOTS - 1;
  /** The number of the last frame that was released. */
  #released: number;
  /** The number of the last frame that was added. */
  #last: number;
  /** Of all frames that are kept. */
  bytes = 0;

  constructor(last: number) {
    this.#released = last;
    this.#last = last;
  }

  get last(): number {
    return this.#last;
  }

  get released(): number {
    return this.#released;
  }

  /** Keeps a frame as the next one. */
  push(frame: Uint8Array): void {
    if (this.#last - this.#released > this.#mask) this.#grow();
    this.#last++;
    this.#ring[this.#last & this.#mask] = frame;
    this.bytes += frame.length;
  }

  /** A frame that is kept. */
  get(number: number): Uint8Array {
    return this.#ring[number & this.#mask] as Uint8Array;
  }

  /** Lets go of the frames up to `number`, which is not beyond the last. */
  releaseThrough(number: number): void {
    while (this.#released < number) {
      this.#released++;
      const at = this.#released & this.#mask;
      this.bytes -= (this.#ring[at] as Uint8Array).length;
      this.#ring[at] = undefined;
    }
  }

  #grow(): void {
    const mask = 2 * this.#mask + 1;
    const ring = new Array<Uint8Array | undefined>(mask + 1);
    for (let n = this.#released + 1; n <= this.#last; n++) ring[n & mask] = this.#ring[n & this.#mask];
    this.#ring = ring;
    this.#mask = mask;
  }
}

const INITIAL_SLOTS = 16;
