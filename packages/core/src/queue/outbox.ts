/** What is pushed comes out by iteration, for one reader. Whoever pushes sees to it that it stays small. */
export class Outbox<T> implements AsyncIterableIterator<T, undefined> {
  #items: T[] = [];
  #waiter: ((result: IteratorResult<T, undefined>) => void) | undefined;
  #ended = false;

  /** After the end, nothing is taken any more. */
  push(item: T): void {
    if (this.#ended) return;
    if (this.#waiter === undefined) {
      this.#items.push(item);
    } else {
      this.#waiter({ done: false, value: item });
      this.#waiter = undefined;
    }
  }

  end(): void {
    this.#ended = true;
    this.#waiter?.({ done: true, value: undefined });
    this.#waiter = undefined;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    if (this.#items.length > 0) return { done: false, value: this.#items.shift() as T };
    if (this.#ended) return { done: true, value: undefined };
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#items = [];
    this.end();
    return { done: true, value: undefined };
  }
}
