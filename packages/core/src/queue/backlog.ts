import type { Entry } from './work-queue.js';

/** Room at the start, in entries; a power of two, as every room after it. */
const LEAST_ROOM = 16;

/** The work that waits, in a ring: it comes and goes at both ends in constant time on average, however much there is. */
export class Backlog {
  #ring: (Entry | undefined)[] = emptyRing(LEAST_ROOM);
  #head = 0;
  length = 0;

  push(entry: Entry): void {
    this.#ensureRoom();
    this.#ring[this.#at(this.length)] = entry;
    this.length++;
  }

  /** Before all else. */
  unshift(entry: Entry): void {
    this.#ensureRoom();
    this.#head = this.#at(-1);
    this.#ring[this.#head] = entry;
    this.length++;
  }

  shift(): Entry | undefined {
    if (this.length === 0) return undefined;
    const entry = this.#ring[this.#head];
    this.#ring[this.#head] = undefined;
    this.#head = this.#at(1);
    this.length--;
    if (this.length * 4 < this.#ring.length && this.#ring.length > LEAST_ROOM)
      this.#move(this.#ring.length / 2);
    return entry;
  }

  #at(offset: number): number {
    return (this.#head + offset) & (this.#ring.length - 1);
  }

  #ensureRoom(): void {
    if (this.length === this.#ring.length) this.#move(this.#ring.length * 2);
  }

  #move(room: number): void {
    const ring = emptyRing(room);
    for (let i = 0; i < this.length; i++) ring[i] = this.#ring[this.#at(i)];
    this.#ring = ring;
    this.#head = 0;
  }
}

function emptyRing(room: number): (Entry | undefined)[] {
  return new Array<Entry | undefined>(room).fill(undefined);
}
