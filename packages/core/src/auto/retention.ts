import { giveFrame, LONG_FRAME_BYTES } from './frame-memory.js';
import { putUint32 } from './frames.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_LONG_FRAME_BYTES = LONG_FRAME_BYTES;

/** Where a frame lies: most need no view of their own. */
class Place {
  memory: Uint8Array | undefined = undefined;
  start = 0;
  end = 0;
  /** The first four bytes of the frame. */
  kind = 0;
}

/**
 * The numbered frames that the peer may not have, so that sending one again is only writing it again. Their headers are filled in
 * when they are.
 */
export class Retention {
  /** A ring: frame `n` is at `n & mask`. */
  #places = newPlaces(INITIAL_PLACES);
  #mask = INITIAL_PLACES - 1;
  /** The numbers of the last frame that was released, and of the last that was added. */
  #released = 0;
  #last = 0;
  /** Of all frames that are kept. */
  bytes = 0;

  /**
   * Keeps the frame `number` that lies in `memory` from `start` to `end`. Where others are kept, it is the one behind them.
   * `kind`: how its header begins.
   */
  push(number: number, kind: number, memory: Uint8Array, start: number, end: number): void {
    if (this.#released === this.#last) this.#released = number - 1;
    if (number - this.#released > this.#mask) this.#grow();
    const place = this.#places[number & this.#mask] as Place;
    place.memory = memory;
    place.start = start;
    place.end = end;
    place.kind = kind;
    this.#last = number;
    this.bytes += end - start;
  }

  /** A frame that is kept, with its kind and number in the header. */
  get(number: number): Uint8Array {
    const place = this.#at(number);
    const memory = place.memory as Uint8Array;
    const { start } = place;
    putUint32(memory, start, place.kind);
    putUint32(memory, start + 4, number);
    const bytes = bytesOf(place);
    return bytes === memory.length ? memory : new Uint8Array(memory.buffer, memory.byteOffset + start, bytes);
  }

  /** Lets go of the frames up to `number`. */
  releaseThrough(number: number): void {
    const last = Math.min(number, this.#last);
    while (this.#released < last) {
      this.#released++;
      const place = this.#at(this.#released);
      const bytes = bytesOf(place);
      this.bytes -= bytes;
      if (bytes > OWN_LONG_FRAME_BYTES) giveFrame(place.memory as Uint8Array, bytes);
      place.memory = undefined;
    }
  }

  #at(number: number): Place {
    return this.#places[number & this.#mask] as Place;
  }

  #grow(): void {
    const mask = 2 * this.#mask + 1;
    const places = newPlaces(mask + 1);
    for (let number = this.#released + 1; number <= this.#last; number++)
      places[number & mask] = this.#at(number);
    this.#places = places;
    this.#mask = mask;
  }
}

const INITIAL_PLACES = 16;

function newPlaces(count: number): Place[] {
  return Array.from({ length: count }, () => new Place());
}

function bytesOf({ start, end }: Place): number {
  return end - start;
}
