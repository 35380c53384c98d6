/**
 * The send slots of a connection: those that are free, and those that were submitted and are not known to be complete, in
 * order. Work requests complete in the order of posting, so a count is all that the engine has to tell.
 */
export class SendSlots {
  readonly #free: Int32Array;
  #freeCount: number;
  // A ring of what was submitted.
  readonly #slots: Int32Array;
  readonly #bytes: Int32Array;
  readonly #mask: number;
  /** Both counters wrap at 2^32, like the gate's. */
  #submitted = 0;
  #completed = 0;
  #unfinishedBytes = 0;

  constructor(count: number) {
    this.#free = Int32Array.from({ length: count }, (_, index) => count - 1 - index);
    this.#freeCount = count;
    const ringSize = 2 ** Math.ceil(Math.log2(count));
    this.#slots = new Int32Array(ringSize);
    this.#bytes = new Int32Array(ringSize);
    this.#mask = ringSize - 1;
  }

  /** How many were submitted so far. */
  get submitted(): number {
    return this.#submitted;
  }

  get freeCount(): number {
    return this.#freeCount;
  }

  /** Bytes that were submitted and are not complete. */
  get unfinishedBytes(): number {
    return this.#unfinishedBytes;
  }

  get allComplete(): boolean {
    return this.#completed === this.#submitted;
  }

  /** Only where `freeCount` is not 0. */
  take(): number {
    return this.#free[--this.#freeCount] as number;
  }

  give(slot: number): void {
    this.#free[this.#freeCount++] = slot;
  }

  submit(slot: number, bytes: number): void {
    const at = this.#submitted & this.#mask;
    this.#slots[at] = slot;
    this.#bytes[at] = bytes;
    this.#submitted = (this.#submitted + 1) | 0;
    this.#unfinishedBytes += bytes;
  }

  /** The slot of what was submitted so long ago, 1 being the last. It must not have been reclaimed. */
  slotOf(ago: number): number {
    return this.#slots[(this.#submitted - ago) & this.#mask] as number;
  }

  /** Its bytes. */
  bytesOf(ago: number): number {
    return this.#bytes[(this.#submitted - ago) & this.#mask] as number;
  }

  /** So many of all that were submitted are complete. */
  reclaim(completed: number): void {
    while (this.#completed !== completed) {
      const at = this.#completed & this.#mask;
      this.#free[this.#freeCount++] = this.#slots[at] as number;
      this.#unfinishedBytes -= this.#bytes[at] as number;
      this.#completed = (this.#completed + 1) | 0;
    }
  }
}
