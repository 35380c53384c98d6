import { Arena } from './arena.js';

/**
 * The numbered frames that the peer has not acknowledged, as they stand on the wire, so that sending one again is only
 * writing it again. Short frames lie one behind the other in chunks; a chunk goes when none of its frames is kept.
 */
export class Retention {
  readonly #arena = new Arena();
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

  /** Memory for a frame; its content is not initialised. */
  allocate(bytes: number): Uint8Array {
    return this.#arena.allocate(bytes);
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
    if (this.#released === this.#last) this.#arena.rest();
  }

  /** Lets go of everything. */
  clear(): void {
    this.releaseThrough(this.#last);
    this.#ring = [];
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
