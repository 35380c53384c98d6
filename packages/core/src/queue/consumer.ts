import { Fifo } from '../contract/fifo.js';
import type { MessageHeaders } from '../rpc/message-headers.js';
import { clearWheelTimer, setWheelTimer, type WheelTimer } from '../rpc/timer-wheel.js';
import type { Entry, WorkQueue } from './work-queue.js';

/**
 * Work on its way to a consumer. The tag names this delivery; work that is given again has another one. It holds no more values than
 * the push did, so that no job exceeds a limit of the codec that its push kept to: it would end every consumer that it is given to.
 */
export type Delivery = readonly [
  tag: number,
  attempt: number,
  headers: MessageHeaders | null,
  ...body: [] | [unknown],
];

/** What a consumer says of work that it was given: done, to be done again, or never. */
export interface Verdict {
  readonly tag: number;
  readonly verdict: 'done' | 'again' | 'never';
}

interface Given {
  readonly entry: Entry;
  readonly timer: WheelTimer | undefined;
}

/**
 * A consumer, at the side of the queue: the stream of what it is given, and what of it is not acknowledged, which is
 * never more than its prefetch.
 */
export class Consumer implements AsyncIterableIterator<Delivery, undefined> {
  readonly #queue: WorkQueue;
  readonly #prefetch: number;
  readonly #ackTimeoutMs: number | undefined;
  readonly #given = new Map<number, Given>();
  /** What has not left yet; also such as was judged before, or was too late, which never leaves. */
  readonly #outgoing = new Fifo<Delivery>();
  #waiter: ((result: IteratorResult<Delivery, undefined>) => void) | undefined;
  #gone = false;
  #tags = 0;

  readonly #onLeave: () => void;

  constructor(queue: WorkQueue, prefetch: number, ackTimeoutMs: number | undefined, onLeave: () => void) {
    this.#onLeave = onLeave;
    this.#queue = queue;
    this.#prefetch = prefetch;
    this.#ackTimeoutMs = ackTimeoutMs;
  }

  get hasRoom(): boolean {
    return !this.#gone && this.#given.size < this.#prefetch;
  }

  give(entry: Entry): void {
    const tag = ++this.#tags;
    const timer =
      this.#ackTimeoutMs === undefined
        ? undefined
        : setWheelTimer(this.#ackTimeoutMs, () => this.judge({ tag, verdict: 'again' }));
    this.#given.set(tag, { entry, timer });
    const { attempts: attempt, body, headers } = entry;
    const delivery = deliveryOf(tag, attempt, headers, body);
    if (this.#waiter === undefined) {
      this.#outgoing.push(delivery);
      if (this.#outgoing.length > 2 * this.#prefetch) this.#forgetJudged();
    } else {
      this.#waiter({ done: false, value: delivery });
      this.#waiter = undefined;
    }
  }

  /** One that comes too late, or for work that was never given, does nothing. */
  judge({ tag, verdict }: Verdict): void {
    const given = this.#given.get(tag);
    if (given === undefined) return;
    this.#given.delete(tag);
    if (given.timer !== undefined) clearWheelTimer(given.timer);
    if (verdict === 'done') this.#queue.acknowledged(given.entry, this);
    else this.#queue.rejected(given.entry, verdict === 'again', this);
  }

  /** The consumer is lost, or has left. */
  leave(): void {
    if (this.#gone) return;
    this.#gone = true;
    const entries: Entry[] = [];
    for (const { entry, timer } of this.#given.values()) {
      if (timer !== undefined) clearWheelTimer(timer);
      entries.push(entry);
    }
    this.#given.clear();
    this.#outgoing.takeAll();
    this.#waiter?.({ done: true, value: undefined });
    this.#waiter = undefined;
    this.#queue.remove(this, entries);
    this.#onLeave();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Delivery, undefined>> {
    for (let value = this.#outgoing.shift(); value !== undefined; value = this.#outgoing.shift()) {
      if (this.#given.has(value[0])) return { done: false, value };
    }
    if (this.#gone) return { done: true, value: undefined };
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  #forgetJudged(): void {
    for (const delivery of this.#outgoing.takeAll()) {
      if (this.#given.has(delivery[0])) this.#outgoing.push(delivery);
    }
  }

  async return(): Promise<IteratorResult<Delivery, undefined>> {
    this.leave();
    return { done: true, value: undefined };
  }
}

/** As it is given to a consumer. Without the body where that is `undefined`, which not every codec knows. */
export function deliveryOf(
  tag: number,
  attempt: number,
  headers: MessageHeaders | undefined,
  body: unknown,
): Delivery {
  const of = headers ?? null;
  return body === undefined ? [tag, attempt, of] : [tag, attempt, of, body];
}
