import { Fifo } from '../contract/fifo.js';
import type { Verdict } from './consumer.js';

/** What a consumer has said of its work and has not left yet: comes out by iteration, for one reader. */
export class Verdicts implements AsyncIterableIterator<Verdict, undefined> {
  readonly #items = new Fifo<Verdict>();
  #waiter: ((result: IteratorResult<Verdict, undefined>) => void) | undefined;
  #whenRoom: (() => void)[] = [];
  #ended = false;

  /** Nobody hears what is said from now on. */
  get ended(): boolean {
    return this.#ended;
  }

  /** After the end, nothing is taken any more. */
  push(item: Verdict): void {
    if (this.#ended) return;
    if (this.#waiter === undefined) {
      this.#items.push(item);
    } else {
      this.#waiter({ done: false, value: item });
      this.#waiter = undefined;
    }
  }

  /** Resolves when fewer than `limit` wait, or at the end. */
  async fewerThan(limit: number): Promise<void> {
    while (this.#items.length >= limit && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#whenRoom.push(resolve);
      });
    }
  }

  /** What waits still leaves. */
  end(): void {
    this.#ended = true;
    this.#waiter?.({ done: true, value: undefined });
    this.#waiter = undefined;
    this.#wake();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Verdict, undefined>> {
    const value = this.#items.shift();
    if (value !== undefined) {
      this.#wake();
      return { done: false, value };
    }
    if (this.#ended) return { done: true, value: undefined };
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  async return(): Promise<IteratorResult<Verdict, undefined>> {
    this.#items.takeAll();
    this.end();
    return { done: true, value: undefined };
  }

  #wake(): void {
    for (const resolve of this.#whenRoom.splice(0)) resolve();
  }
}
