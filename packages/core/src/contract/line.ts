/**
 * Those who wait for their turn, each once: a queue that anybody may leave from the middle. Its operations take constant time on
 * average, however long it gets.
 */
export class Line<T> {
  readonly #members = new Set<T>();
  /** Goes on from where it stands; all members stand behind it. A new one would pass all that have left again. */
  #cursor: SetIterator<T> | undefined;
  /** Where the cursor stands, if that was not taken. */
  #first: T | undefined;

  get length(): number {
    return this.#members.size;
  }

  has(member: T): boolean {
    return this.#members.has(member);
  }

  /** To its end, unless it stands there already. */
  add(member: T): void {
    this.#members.add(member);
  }

  /** `false`: it did not stand there. */
  delete(member: T): boolean {
    if (member === this.#first) this.#first = undefined; // it may come again, to the end
    return this.#members.delete(member);
  }

  /** Who has stood there longest. */
  peek(): T | undefined {
    while (this.#members.size > 0 && this.#first === undefined) {
      this.#cursor ??= this.#members.values();
      const { done, value } = this.#cursor.next();
      if (done === true) this.#cursor = undefined;
      else this.#first = value;
    }
    return this.#first;
  }

  /** The same, who then does not stand there any more. */
  shift(): T | undefined {
    const first = this.peek();
    if (first === undefined) return undefined;
    this.#members.delete(first);
    this.#first = undefined;
    return first;
  }
}
