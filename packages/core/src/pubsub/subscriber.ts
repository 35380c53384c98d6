import { VerbmqError } from '../contract/errors.js';
import { Fifo } from '../contract/fifo.js';
import { type Outlet, POLL, type PolledSource, READY } from '../rpc/polled-source.js';

/** What becomes of events for a subscriber that does not read as fast as they come. */
export type WhenSlow = 'drop-oldest' | 'drop-newest' | 'disconnect';

const POLICIES: readonly unknown[] = ['drop-oldest', 'drop-newest', 'disconnect'] satisfies WhenSlow[];

/** @throws TypeError for what is none of them. */
export function checkWhenSlow(whenSlow: unknown): WhenSlow {
  if (!POLICIES.includes(whenSlow)) throw new TypeError(`whenSlow must be one of ${POLICIES.join(', ')}`);
  return whenSlow as WhenSlow;
}

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

/** What an event that waits takes beside its bytes, and what its place in the queue of each subscriber does. In bytes, as measured. */
export const EVENT_BYTES = 256;
export const PLACE_BYTES = 64;

/** What all subscribers of a broker share. */
export class Tally {
  readonly maxHeldBytes: number;
  /** What the events that wait take, each event counted once, and their places in the queues of subscribers. */
  heldBytes = 0;
  delivered = 0;
  dropped = 0;

  constructor(maxHeldBytes: number) {
    this.maxHeldBytes = maxHeldBytes;
  }

  fits(event: Event): boolean {
    const bytes = event.waiting > 0 ? 0 : bytesOf(event);
    return this.heldBytes + bytes + PLACE_BYTES <= this.maxHeldBytes;
  }

  hold(event: Event): void {
    if (event.waiting++ === 0) this.heldBytes += bytesOf(event);
    this.heldBytes += PLACE_BYTES;
  }

  letGo(event: Event): void {
    if (--event.waiting === 0) this.heldBytes -= bytesOf(event);
    this.heldBytes -= PLACE_BYTES;
  }
}

function bytesOf(event: Event): number {
  return event.bytes.byteLength + EVENT_BYTES;
}

export interface SubscriberLimits {
  readonly maxQueued: number;
  readonly maxQueuedBytes: number;
  readonly whenSlow: WhenSlow;
}

interface Waiting {
  readonly event: Event;
  /** Whether it is held in the tally; one that was awaited while there was no room is not. */
  readonly isHeld: boolean;
  /** How many were left out between the one before and this one. */
  droppedBefore: number;
}

/**
 * A subscriber, at the side of the broker: events wait here, boundedly, until its stream has room. Those that were left
 * out are counted, and the subscriber is told before the event that came after them.
 */
export class Subscriber implements PolledSource<Item>, AsyncIterableIterator<Item, undefined> {
  readonly #codec: string;
  readonly #limits: SubscriberLimits;
  readonly #tally: Tally;
  readonly #onLeave: (error: VerbmqError | undefined) => void;
  readonly #queue = new Fifo<Waiting>();
  #queuedBytes = 0;
  /** How many were left out after the last one that waits. */
  #dropped = 0;
  #told = false;
  /** Whoever waits for something to read. */
  #reader: { readonly ready: Promise<void>; readonly wake: () => void; readonly outlet: Outlet } | undefined;
  /** The first that waits came when it was waited for: it is under way, and has room of its own. */
  #firstIsUnderWay = false;
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
    // Of a reader that is not behind, nothing is kept because of others who are.
    const isAwaited = this.#reader?.outlet.open === true;
    const fits = this.#tally.fits(event);
    if (isAwaited || fits) {
      if (this.#limits.whenSlow === 'drop-oldest') while (!this.#hasRoom(event)) this.#dropOldest();
      if (this.#hasRoom(event)) {
        this.#push(event, fits);
        this.#firstIsUnderWay ||= isAwaited;
        this.#wake();
        return true;
      }
    }
    this.#dropped++;
    this.#tally.dropped++;
    this.#wake();
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
    for (;;) {
      const next = this[POLL]();
      if (next !== undefined) return next;
      await this[READY]({ open: true });
    }
  }

  [POLL](): IteratorResult<Item, undefined> | undefined {
    if (!this.#told) {
      this.#told = true;
      return { done: false, value: this.#codec };
    }
    if (this.#end === 'left') return { done: true, value: undefined };
    if (this.#end !== undefined) throw this.#end;
    const first = this.#queue.peek();
    if (first === undefined) {
      if (this.#dropped === 0) return undefined;
      const value = this.#dropped;
      this.#dropped = 0;
      return { done: false, value };
    }
    if (first.droppedBefore > 0) {
      const value = first.droppedBefore;
      first.droppedBefore = 0;
      return { done: false, value };
    }
    this.#shift();
    return { done: false, value: first.event.bytes };
  }

  [READY](outlet: Outlet): Promise<void> {
    if (!this.#told || this.#end !== undefined || this.#queue.length > 0 || this.#dropped > 0) {
      return Promise.resolve();
    }
    if (this.#reader === undefined) {
      let wake!: () => void;
      const ready = new Promise<void>((resolve) => {
        wake = resolve;
      });
      this.#reader = { ready, wake, outlet };
    }
    return this.#reader.ready;
  }

  #wake(): void {
    this.#reader?.wake();
    this.#reader = undefined;
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.leave();
    return { done: true, value: undefined };
  }

  /** One may wait whatever its length: else a subscriber that reads all would miss what is longer than the limit. */
  #hasRoom({ bytes }: Event): boolean {
    const first = this.#queue.peek();
    if (first === undefined) return true;
    const { maxQueued, maxQueuedBytes } = this.#limits;
    const length = this.#queue.length - (this.#firstIsUnderWay ? 1 : 0);
    const queuedBytes = this.#queuedBytes - (this.#firstIsUnderWay ? first.event.bytes.byteLength : 0);
    return length < maxQueued && queuedBytes + bytes.byteLength <= maxQueuedBytes;
  }

  #push(event: Event, isHeld: boolean): void {
    this.#queue.push({ event, isHeld, droppedBefore: this.#dropped });
    this.#dropped = 0;
    this.#queuedBytes += event.bytes.byteLength;
    this.#tally.delivered++;
    if (isHeld) this.#tally.hold(event);
  }

  #shift(): Waiting {
    const first = this.#queue.shift() as Waiting;
    this.#firstIsUnderWay = false;
    this.#queuedBytes -= first.event.bytes.byteLength;
    if (first.isHeld) this.#tally.letGo(first.event);
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
    this.#wake();
    this.#onLeave(end === 'left' ? undefined : end);
  }
}
