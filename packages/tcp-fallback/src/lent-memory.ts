import { isBorrowed, markKept, markReused } from '@verbmq/core/transport-kit';
import { messageMemory } from './message-memory.js';

/** What applications may keep of this memory, in bytes, for all connections of the process together. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;
let keptBytes = 0;

interface Lent {
  readonly memory: ArrayBuffer;
  /** Its length, for as long as the application has not transferred it to another thread. */
  readonly bytes: number;
  kept: boolean;
}

/** The long messages of a connection whose memory is used again when their leases end, by the tokens of the leases. */
export class LentMemory {
  readonly #lent = new Map<number, Lent>();
  #tokens = 0;

  /** A message lies in this memory. Answers the token of its lease, which is above 0. */
  lend(memory: ArrayBuffer): number {
    markReused(memory);
    const token = ++this.#tokens;
    this.#lent.set(token, { memory, bytes: memory.byteLength, kept: false });
    return token;
  }

  /**
   * The application keeps the message. `false`: it has kept so much already that the memory is its own from now on. So
   * an application that forgets to release what it keeps costs no more than that.
   */
  keep(token: number): boolean {
    const lent = this.#lent.get(token);
    if (lent === undefined) return false;
    markKept(lent.memory);
    if (keptBytes + lent.bytes > MAX_KEPT_BYTES) {
      this.#lent.delete(token);
      return false;
    }
    keptBytes += lent.bytes;
    lent.kept = true;
    return true;
  }

  /** The lease has ended. Answers whether the message had been kept before. */
  end(token: number): boolean {
    const lent = this.#lent.get(token);
    if (lent === undefined) return false;
    this.#lent.delete(token);
    if (lent.kept) keptBytes -= lent.bytes;
    // What was kept may have been sent on, and be read by a socket after its release: then it is left to whoever reads it.
    if (!isBorrowed(lent.memory)) messageMemory.give(lent.memory);
    return lent.kept;
  }

  /** The connection has ended: what is still lent belongs to whoever has it. */
  clear(): void {
    for (const { bytes, kept } of this.#lent.values()) if (kept) keptBytes -= bytes;
    this.#lent.clear();
  }
}
