import { VerbmqError } from '../contract/errors.js';
import type { AssemblyBudget } from './assembly.js';
import { FrameError } from './frame-reader.js';
import { estimateBytes } from './memory-estimate.js';
import { INITIAL_WINDOW, ITEM_OVERHEAD } from './protocol.js';

export interface InboundHooks {
  /** The sender may send so many bytes more. */
  grant(bytes: number): void;
  /** The reader has left before the end. */
  abandon(reason: unknown): void;
}

interface Item {
  readonly value: unknown;
  /** What it costs the sender's credit, and what it takes in memory here where that counts. */
  readonly cost: number;
  readonly held: number;
}

interface Waiter {
  readonly resolve: (result: IteratorResult<unknown, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The receiving end of a stream. The sender may be ahead of the reader by the window and one item; a sender that
 * exceeds it breaks the protocol.
 */
export class InboundStream implements AsyncIterableIterator<unknown, undefined> {
  readonly #hooks: InboundHooks;
  readonly #windowBytes: number;
  readonly #budget: AssemblyBudget | undefined;
  /** What of that the items hold that wait here, until they are read, or nobody is expected to. */
  #heldBytes = 0;
  #counts = true;
  #items: Item[] = [];
  #head = 0;
  #waiters: Waiter[] = [];
  /** What the sender has left. It may send while this is positive. */
  #credit = INITIAL_WINDOW;
  /** What was read and not granted again yet. */
  #read = 0;
  #ended = false;
  #error: unknown;
  #failed = false;

  /** @param budget is shared with other streams, which a peer may have any number of: one that exceeds it fails. */
  constructor(windowBytes: number, hooks: InboundHooks, budget?: AssemblyBudget) {
    this.#windowBytes = windowBytes;
    this.#budget = budget;
    this.#hooks = hooks;
  }

  /** Grants what the window has beyond that which every stream begins with. */
  open(): void {
    const more = this.#windowBytes - INITIAL_WINDOW;
    if (more <= 0) return;
    this.#credit += more;
    this.#hooks.grant(more);
  }

  /**
   * An item that takes `bytes` on the wire was announced.
   * @throws FrameError when the sender had no credit for it.
   */
  charge(bytes: number): number {
    if (this.#credit <= 0) throw new FrameError('a stream exceeds its window');
    const cost = bytes + ITEM_OVERHEAD;
    this.#credit -= cost;
    return cost;
  }

  /** @throws VerbmqError `ERR_VERBMQ_OVERLOADED` where the streams hold too much. */
  push(value: unknown, cost: number): void {
    if (this.#ended) return;
    const waiter = this.#waiters.shift();
    if (waiter === undefined) {
      const held = this.#hold(value);
      this.#items.push({ value, cost, held });
    } else {
      waiter.resolve({ done: false, value });
      this.#consumed(cost);
    }
  }

  /** Nothing more will come; what has arrived is still read. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const waiter of this.#waiters.splice(0)) waiter.resolve({ done: true, value: undefined });
  }

  /** As `end`, but the reader gets `error` after what has arrived, which does not count any more: the program has it. */
  fail(error: unknown): void {
    this.#release(this.#heldBytes);
    this.#counts = false;
    if (this.#ended) return;
    this.#ended = true;
    const first = this.#waiters.shift();
    for (const waiter of this.#waiters.splice(0)) waiter.resolve({ done: true, value: undefined });
    if (first !== undefined) {
      first.reject(error);
    } else {
      this.#failed = true;
      this.#error = error;
    }
  }

  get ended(): boolean {
    return this.#ended;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    const item = this.#items[this.#head];
    if (item !== undefined) {
      if (this.#counts) this.#release(item.held);
      this.#shift();
      this.#consumed(item.cost);
      return Promise.resolve({ done: false, value: item.value });
    }
    if (this.#failed) {
      this.#failed = false;
      return Promise.reject(this.#error);
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
    });
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#leave(undefined);
    return { done: true, value: undefined };
  }

  /** Ends the stream from this side: a read that waits, or the next one, fails with `ERR_VERBMQ_CANCELLED`. */
  cancel(reason?: unknown): void {
    if (this.#ended) return;
    this.discard();
    this.fail(
      new VerbmqError('ERR_VERBMQ_CANCELLED', 'the stream was cancelled by its reader', { cause: reason }),
    );
    this.#hooks.abandon(reason);
  }

  /** Forgets what has arrived and was not read. */
  discard(): void {
    this.#items = [];
    this.#head = 0;
    this.#release(this.#heldBytes);
  }

  /** @throws VerbmqError `ERR_VERBMQ_OVERLOADED` where the streams hold too much. */
  #hold(value: unknown): number {
    if (this.#budget === undefined) return 0;
    const bytes = ITEM_OVERHEAD + estimateBytes(value, this.#budget.maxBytes);
    this.#budget.take(bytes);
    this.#heldBytes += bytes;
    return bytes;
  }

  /** These count no more: they were read, or the call is over. */
  #release(bytes: number): void {
    this.#heldBytes -= bytes;
    this.#budget?.give(bytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leave(undefined);
  }

  #leave(reason: unknown): void {
    this.discard();
    this.#failed = false;
    if (this.#ended) return;
    this.end();
    this.#hooks.abandon(reason);
  }

  #shift(): void {
    this.#items[this.#head++] = undefined as unknown as Item;
    if (this.#head === this.#items.length) {
      this.discard();
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Grants in lots of half a window, so that small items do not cost a frame each. */
  #consumed(cost: number): void {
    this.#read += cost;
    if (this.#ended || this.#read * 2 < this.#windowBytes) return;
    const bytes = this.#read;
    this.#read = 0;
    this.#credit += bytes;
    this.#hooks.grant(bytes);
  }
}
