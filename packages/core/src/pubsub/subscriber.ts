import { VerbmqError } from '../contract/errors.js';
import { Fifo } from '../contract/fifo.js';

/** What becomes of events for a subscriber that does not read as fast as they come. */
export type WhenSlow = 'drop-oldest' | 'drop-newest' | 'disconnect';

/** What travels to a subscriber: that it has subscribed, how many events were left out, or an event as it was encoded. */
export type Item = null | number | Uint8Array;

/**
 * A subscriber, at the side of the broker: events wait here, boundedly, until its stream has room. Those that were left
 * out are counted, and the subscriber is told before the next event.
 */
export class Subscriber implements AsyncIterableIterator<Item, undefined> {
  readonly #maxQueued: number;
  readonly #whenSlow: WhenSlow;
  readonly #onLeave: () => void;
  readonly #queue = new Fifo<Uint8Array>();
  #dropped = 0;
  #told = false;
  #waiter:
    | { resolve(result: IteratorResult<Item, undefined>): void; reject(error: unknown): void }
    | undefined;
  #end: VerbmqError | 'left' | undefined;

  constructor(maxQueued: number, whenSlow: WhenSlow, onLeave: () => void) {
    this.#maxQueued = maxQueued;
    this.#whenSlow = whenSlow;
    this.#onLeave = onLeave;
  }

  /** `false`: an event was left out, this one or an older one. */
  offer(event: Uint8Array): boolean {
    if (this.#end !== undefined) return false;
    const waiter = this.#waiter;
    if (waiter !== undefined) {
      this.#waiter = undefined;
      waiter.resolve({ done: false, value: event });
      return true;
    }
    if (this.#queue.length < this.#maxQueued) {
      this.#queue.push(event);
      return true;
    }
    this.#dropped++;
    if (this.#whenSlow === 'drop-oldest') {
      this.#queue.shift();
      this.#queue.push(event);
    } else if (this.#whenSlow === 'disconnect') {
      this.#finish(
        new VerbmqError(
          'ERR_VERBMQ_OVERLOADED',
          `the subscriber is ${this.#maxQueued} events behind, and was chosen to be disconnected then`,
        ),
      );
    }
    return false;
  }

  /** Nothing more is offered. */
  leave(): void {
    this.#finish('left');
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Item, undefined>> {
    if (!this.#told) {
      this.#told = true;
      return { done: false, value: null };
    }
    if (this.#end === 'left') return { done: true, value: undefined };
    if (this.#end !== undefined) throw this.#end;
    if (this.#dropped > 0) {
      const value = this.#dropped;
      this.#dropped = 0;
      return { done: false, value };
    }
    const event = this.#queue.shift();
    if (event !== undefined) return { done: false, value: event };
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.leave();
    return { done: true, value: undefined };
  }

  #finish(end: VerbmqError | 'left'): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#queue.takeAll();
    if (end === 'left') this.#waiter?.resolve({ done: true, value: undefined });
    else this.#waiter?.reject(end);
    this.#waiter = undefined;
    this.#onLeave();
  }
}
