import { VerbmqError } from '../contract/errors.js';
import { Fifo } from '../contract/fifo.js';

/** What becomes of events for a subscriber that does not read as fast as they come. */
export type WhenSlow = 'drop-oldest' | 'drop-newest' | 'disconnect';

/** What travels to a subscriber: first, when it has subscribed, the codec's name; how many events were left out; or an event as it was encoded. */
export type Item = string | number | Uint8Array;

/** An event, encoded once for all subscribers. */
export class Event {
  readonly bytes: Uint8Array;
  /** For how many subscribers it waits. */
  waiting = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** What all subscribers of a broker share. */
export class Tally {
  readonly maxHeldBytes: number;
  /** The bytes of the events that wait, each event counted once. */
  heldBytes = 0;
  delivered = 0;
  dropped = 0;

  constructor(maxHeldBytes: number) {
    this.maxHeldBytes = maxHeldBytes;
  }

  fits(event: Event): boolean {
    return event.waiting > 0 || this.heldBytes + event.bytes.byteLength <= this.maxHeldBytes;
  }

  hold(event: Event): void {
    if (event.waiting++ === 0) this.heldBytes += event.bytes.byteLength;
  }

  letGo(event: Event): void {
    if (--event.waiting === 0) this.heldBytes -= event.bytes.byteLength;
  }
}

export interface SubscriberLimits {
  readonly maxQueued: number;
  readonly maxQueuedBytes: number;
  readonly whenSlow: WhenSlow;
}

interface Waiting {
  readonly event: Event;
  /** How many were left out between the one before and this one. */
  droppedBefore: number;
}

/**
 * A subscriber, at the side of the broker: events wait here, boundedly, until its stream has room. Those that were left
 * out are counted, and the subscriber is told before the event that came after them.
 */
export class Subscriber implements AsyncIterableIterator<Item, undefined> {
  readonly #codec: string;
  readonly #limits: SubscriberLimits;
  readonly #tally: Tally;
  readonly #onLeave: (error: VerbmqError | undefined) => void;
  readonly #queue = new Fifo<Waiting>();
  #queuedBytes = 0;
  /** How many were left out after the last one that waits. */
  #dropped = 0;
  #told = false;
  #waiter:
    | { resolve(result: IteratorResult<Item, undefined>): void; reject(error: unknown): void }
    | undefined;
  #end: VerbmqError | 'left' | undefined;

  constructor(
    codec: string,
    limits: SubscriberLimits,
    tally: Tally,
    onLeave: (error: VerbmqError | undefined) => void = () => {},
  ) {
    this.#codec = codec;
    this.#limits = limits;
    this.#tally = tally;
    this.#onLeave = onLeave;
  }

  /** Whether the subscriber gets this event, as far as can be told now. */
  offer(event: Event): boolean {
    if (this.#end !== undefined) return false;
    const waiter = this.#waiter;
    if (waiter !== undefined) {
      this.#waiter = undefined;
      this.#tally.delivered++;
      waiter.resolve({ done: false, value: event.bytes });
      return true;
    }
    if (this.#tally.fits(event)) {
      if (this.#limits.whenSlow === 'drop-oldest') while (!this.#hasRoom(event)) this.#dropOldest();
      if (this.#hasRoom(event)) {
        this.#push(event);
        return true;
      }
    }
    this.#dropped++;
    this.#tally.dropped++;
    if (this.#limits.whenSlow === 'disconnect') {
      this.#finish(
        new VerbmqError(
          'ERR_VERBMQ_OVERLOADED',
          `the subscriber is ${this.#queue.length} events of ${this.#queuedBytes} bytes behind, and was chosen to be disconnected then`,
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
      return { done: false, value: this.#codec };
    }
    if (this.#end === 'left') return { done: true, value: undefined };
    if (this.#end !== undefined) throw this.#end;
    const first = this.#queue.peek();
    if (first === undefined) {
      if (this.#dropped > 0) {
        const value = this.#dropped;
        this.#dropped = 0;
        return { done: false, value };
      }
      return new Promise((resolve, reject) => {
        this.#waiter = { resolve, reject };
      });
    }
    if (first.droppedBefore > 0) {
      const value = first.droppedBefore;
      first.droppedBefore = 0;
      return { done: false, value };
    }
    this.#shift();
    return { done: false, value: first.event.bytes };
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.leave();
    return { done: true, value: undefined };
  }

  /** One may wait whatever its length: else a subscriber that reads all would miss what is longer than the limit. */
  #hasRoom({ bytes }: Event): boolean {
    const { length } = this.#queue;
    if (length === 0) return true;
    return (
      length < this.#limits.maxQueued && this.#queuedBytes + bytes.byteLength <= this.#limits.maxQueuedBytes
    );
  }

  #push(event: Event): void {
    this.#queue.push({ event, droppedBefore: this.#dropped });
    this.#dropped = 0;
    this.#queuedBytes += event.bytes.byteLength;
    this.#tally.delivered++;
    this.#tally.hold(event);
  }

  #shift(): Waiting {
    const first = this.#queue.shift() as Waiting;
    this.#queuedBytes -= first.event.bytes.byteLength;
    this.#tally.letGo(first.event);
    return first;
  }

  #dropOldest(): void {
    const dropped = this.#shift().droppedBefore + 1;
    const next = this.#queue.peek();
    if (next === undefined) this.#dropped += dropped;
    else next.droppedBefore += dropped;
    this.#tally.dropped++;
    this.#tally.delivered--;
  }

  #finish(end: VerbmqError | 'left'): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    while (this.#queue.length > 0) this.#shift();
    if (end === 'left') this.#waiter?.resolve({ done: true, value: undefined });
    else this.#waiter?.reject(end);
    this.#waiter = undefined;
    this.#onLeave(end === 'left' ? undefined : end);
  }
}
