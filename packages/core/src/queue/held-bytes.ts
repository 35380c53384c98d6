import { estimateBytes } from '../rpc/memory-estimate.js';

/** What the queue keeps beside a body, in bytes. */
const ENTRY_BYTES = 64;

/** About how much memory a piece of work takes, in bytes; counted no further than a little beyond `limit`. */
export function entryBytes(body: unknown, limit: number): number {
  return ENTRY_BYTES + estimateBytes(body, limit);
}

/** What all queues of a broker hold together: what waits, what is being done, and what waits for room. */
export class HeldBytes {
  readonly max: number;
  held = 0;

  constructor(max: number) {
    this.max = max;
  }

  /** Whether there would be room for `bytes` if `freed` were given back. */
  fits(bytes: number, freed = 0): boolean {
    return this.held - freed + bytes <= this.max;
  }

  take(bytes: number): void {
    this.held += bytes;
  }

  giveBack(bytes: number): void {
    this.held -= bytes;
  }
}
