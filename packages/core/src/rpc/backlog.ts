/** What waits on a connection because the peer does not take it. */
export class Backlog {
  #bytes = 0;
  #answerBytes = 0;
  #movedAt = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Those of them that go to the caller: answers, and all that a call is refused or granted. */
  get answerBytes(): number {
    return this.#answerBytes;
  }

  /** For how long nothing of it has left, in milliseconds. Of use only while something waits. */
  get stalledMs(): number {
    return performance.now() - this.#movedAt;
  }

  add(bytes: number, toCaller: boolean): void {
    if (this.#bytes === 0) this.#movedAt = performance.now();
    this.#bytes += bytes;
    if (toCaller) this.#answerBytes += bytes;
  }

  remove(bytes: number, toCaller: boolean): void {
    this.#movedAt = performance.now();
    this.#bytes -= bytes;
    if (toCaller) this.#answerBytes -= bytes;
  }
}
