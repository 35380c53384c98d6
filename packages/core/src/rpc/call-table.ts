const INITIAL_SLOTS = 16;
const MAX_SLOTS = 64 * 1024;

/**
 * Calls by their numbers, which ascend: the lowest bits of a number are its slot. The few whose slot is taken, as those
 * that run for long, go into a map.
 *
 * Not a map alone, because of garbage: V8 gives a map that entries come to and go from a new table every few calls, and
 * lets the old table refer to it. Once one of them is old enough to be left to the major collections, it keeps all that
 * follow it until then.
 */
export class CallTable<Call extends { readonly id: number }> {
  #slots = emptySlots<Call>(INITIAL_SLOTS);
  readonly #overflow = new Map<number, Call>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: number): Call | undefined {
    const call = this.#slots[this.#slotOf(id)];
    if (call !== undefined && call.id === id) return call;
    return this.#overflow.size === 0 ? undefined : this.#overflow.get(id);
  }

  /** Enters a call whose number is not in the table. */
  add(call: Call): void {
    this.#size++;
    if (this.#size * 2 > this.#slots.length && this.#slots.length < MAX_SLOTS) this.#grow();
    this.#place(call);
  }

  /** `false`: it was not there. */
  delete(id: number): boolean {
    const slot = this.#slotOf(id);
    if (this.#slots[slot]?.id === id) this.#slots[slot] = undefined;
    else if (!this.#overflow.delete(id)) return false;
    this.#size--;
    return true;
  }

  /** All of them as they are now, the oldest first. */
  values(): Call[] {
    const placed = this.#slots.filter((call) => call !== undefined);
    return [...placed, ...this.#overflow.values()].sort((a, b) => a.id - b.id);
  }

  #slotOf(id: number): number {
    return id & (this.#slots.length - 1);
  }

  #place(call: Call): void {
    const slot = this.#slotOf(call.id);
    if (this.#slots[slot] === undefined) this.#slots[slot] = call;
    else this.#overflow.set(call.id, call);
  }

  #grow(): void {
    const calls = this.values();
    this.#slots = emptySlots(this.#slots.length * 2);
    this.#overflow.clear();
    for (const call of calls) this.#place(call);
  }
}

/** @param length a power of two */
function emptySlots<Call>(length: number): (Call | undefined)[] {
  return new Array<Call | undefined>(length).fill(undefined);
}
