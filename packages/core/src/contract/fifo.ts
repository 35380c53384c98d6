/** A queue whose operations take constant time on average, however long it gets. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;
  /** Read-only; a field, for it is asked for with each message. */
  length = 0;

  push(item: T): void {
    this.#items.push(item);
    this.length++;
  }

  peek(): T | undefined {
    return this.#items[this.#head];
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#items[this.#head] = undefined;
    this.#head++;
    this.length--;
    if (this.#head === this.#items.length) {
      this.#items = [];
      this.#head = 0;
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Empties the queue and answers what was in it. */
  takeAll(): T[] {
    const items = this.#items.slice(this.#head) as T[];
    this.#items = [];
    this.#head = 0;
    this.length = 0;
    return items;
  }
}
