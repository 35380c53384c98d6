/** What waits on a connection because the peer does not take it. */
export class Backlog {
  #bytes = 0;
  #answerBytes = 0;
  /** Since something has left: when a call was refused last, and for how long calls have been. */
  #refusedAt: number | undefined;
  #refusingMs = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Those of them that go to the caller: answers, and all that a call is refused or granted. */
  get answerBytes(): number {
    return this.#answerBytes;
  }

  /**
   * A call is refused because so much waits. Answers for how long that has been so while nothing left, in milliseconds. No pause between
   * two calls counts for more than `mostMs`: it may be this side that was busy, or a connection on which nothing could pass.
   */
  refused(mostMs: number): number {
    const now = performance.now();
    if (this.#refusedAt !== undefined) this.#refusingMs += Math.min(now - this.#refusedAt, mostMs);
    this.#refusedAt = now;
    return this.#refusingMs;
  }

  add(bytes: number, toCaller: boolean): void {
    this.#bytes += bytes;
    if (toCaller) this.#answerBytes += bytes;
  }

  remove(bytes: number, toCaller: boolean): void {
    this.#refusedAt = undefined;
    this.#refusingMs = 0;
    this.#bytes -= bytes;
    if (toCaller) this.#answerBytes -= bytes;
  }
}
