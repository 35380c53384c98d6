import { giveFrame, LONG_FRAME_BYTES, uninitialised } from './frame-memory.js';
import { putUint32 } from './frames.js';

/**
 * The numbered frames that the peer has not acknowledged, so that sending one again is only writing it again. Their headers are
 * filled in when they are.
 */
export class Retention {
  /** Rings: frame `n` lies in `#memory[n & mask]`, from `#starts[n & mask]` to `#ends[n & mask]`. Most need no view of their own. */
  #memory: (Uint8Array | undefined)[] = new Array(INITIAL_SLOTS);
  #starts = new Float64Array(INITIAL_SLOTS);
  #ends = new Float64Array(INITIAL_SLOTS);
  /** The first four bytes of each. */
  #kinds = new Int32Array(INITIAL_SLOTS);
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

  /** Keeps the frame that lies in `memory` from `start` to `end` as the next one. `kind`: how its header begins. */
  push(kind: number, memory: Uint8Array, start: number, end: number): void {
    if (this.#last - this.#released > this.#mask) this.#grow();
    this.#last++;
    const at = this.#last & this.#mask;
    this.#memory[at] = memory;
    this.#starts[at] = start;
    this.#ends[at] = end;
    this.#kinds[at] = kind;
    this.bytes += end - start;
  }

  /** A frame that is kept, with its kind and number in the header. */
  get(number: number): Uint8Array {
    const at = number & this.#mask;
    const memory = this.#memory[at] as Uint8Array;
    const start = this.#starts[at] as number;
    putUint32(memory, start, this.#kinds[at] as number);
    putUint32(memory, start + 4, number);
    const bytes = (this.#ends[at] as number) - start;
    return bytes === memory.length ? memory : new Uint8Array(memory.buffer, memory.byteOffset + start, bytes);
  }

  /** Lets go of the frames up to `number`, which is not beyond the last. */
  releaseThrough(number: number): void {
    while (this.#released < number) {
      this.#released++;
      const at = this.#released & this.#mask;
      const bytes = (this.#ends[at] as number) - (this.#starts[at] as number);
      this.bytes -= bytes;
      if (bytes > LONG_FRAME_BYTES) giveFrame(this.#memory[at] as Uint8Array, bytes);
      this.#memory[at] = undefined;
    }
  }

  /** Copies the frames that lie in `memory`, which is needed for others. */
  vacate(memory: Uint8Array): void {
    if (memory.length === 0) return;
    let bytes = 0;
    const first = this.#released + 1;
    for (let n = first; n <= this.#last; n++)
      if (this.#memory[n & this.#mask] === memory) bytes += this.#bytesOf(n);
    if (bytes === 0) return;
    const copies = uninitialised(bytes);
    let end = 0;
    for (let n = first; n <= this.#last; n++) {
      const at = n & this.#mask;
      if (this.#memory[at] !== memory) continue;
      const start = end;
      end += this.#bytesOf(n);
      copies.set(memory.subarray(this.#starts[at], this.#ends[at]), start);
      this.#memory[at] = copies;
      this.#starts[at] = start;
      this.#ends[at] = end;
    }
  }

  #bytesOf(number: number): number {
    const at = number & this.#mask;
    return (this.#ends[at] as number) - (this.#starts[at] as number);
  }

  #grow(): void {
    const mask = 2 * this.#mask + 1;
    const memory = new Array<Uint8Array | undefined>(mask + 1);
    const starts = new Float64Array(mask + 1);
    const ends = new Float64Array(mask + 1);
    const kinds = new Int32Array(mask + 1);
    for (let n = this.#released + 1; n <= this.#last; n++) {
      memory[n & mask] = this.#memory[n & this.#mask];
      starts[n & mask] = this.#starts[n & this.#mask] as number;
      ends[n & mask] = this.#ends[n & this.#mask] as number;
      kinds[n & mask] = this.#kinds[n & this.#mask] as number;
    }
    this.#memory = memory;
    this.#starts = starts;
    this.#ends = ends;
    this.#kinds = kinds;
    this.#mask = mask;
  }
}

const INITIAL_SLOTS = 16;
