/**
 * Pauses between attempts: each is drawn evenly from nothing up to a limit that doubles (full jitter), the first one too,
 * so that those who lost the same peer at the same moment do not come back at the same moment.
 */
export class Backoff {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #random: () => number;
  #attempts = 0;

  constructor(minMs: number, maxMs: number, random: () => number = Math.random) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#random = random;
  }

  /** The pause before the next attempt, in milliseconds. */
  next(): number {
    const limit = Math.min(this.#maxMs, this.#minMs * 2 ** Math.min(this.#attempts, 40));
    this.#attempts++;
    return Math.round(this.#random() * limit);
  }

  reset(): void {
    this.#attempts = 0;
  }
}
