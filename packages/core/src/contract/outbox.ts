import type { VerbmqError } from './errors.js';
import { messageGone } from './memory.js';
import { copyOf } from './ordinary-memory.js';
import type { OutgoingLease } from './outgoing-lease.js';
import { isReused, noteBorrowed } from './reused-memory.js';
import { SendQueue, type WaitingSend } from './send-queue.js';

/** The transport's side of sending; see the hooks of `Connection` of the same names. */
export interface OutboxHooks {
  submit(data: Uint8Array, lease: OutgoingLease | undefined, mayBorrow: boolean): boolean | Promise<void>;
  bufferedBytes(): number;
  awaitLeaving(): void;
  /** Other sends wait than before. */
  waitingChanged(): void;
}

const TAKEN: Promise<void> = Promise.resolve();

/** Up to this length a message that leaves at once is not lent: to find out whether its memory is used again takes as long as a copy. */
const COPIED_BYTES = 1024;

/** The sending half of a connection: straight into the transport while it has room, else in line. */
export class Outbox {
  readonly #hooks: OutboxHooks;
  readonly #queue: SendQueue;
  #flushing = false;
  /** The one that is being given to the transport at this moment. */
  #submitted: WaitingSend | undefined;
  #drainWaiters: { resolve: () => void; reject: (error: VerbmqError) => void }[] = [];

  messagesSent = 0;
  bytesSent = 0;
  backpressureEvents = 0;

  constructor(maxQueuedBytes: number, hooks: OutboxHooks) {
    this.#queue = new SendQueue(maxQueuedBytes, () => hooks.waitingChanged());
    this.#hooks = hooks;
  }

  /** Sends that wait for room. */
  get waiting(): number {
    return this.#queue.length;
  }

  get bytesWaiting(): number {
    return this.#queue.bytes;
  }

  /** Whether nothing that was accepted is left in this process. */
  get empty(): boolean {
    return this.#queue.length === 0 && this.#hooks.bufferedBytes() === 0;
  }

  /** @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL` */
  send(data: Uint8Array, lease: OutgoingLease | undefined): Promise<void> {
    if (this.#queue.length === 0) {
      const mayBorrow = lease !== undefined || (data.length > COPIED_BYTES && !isReused(data));
      const taken = this.#hooks.submit(data, lease, mayBorrow);
      if (taken !== false) {
        lease?.markTaken();
        this.count(data.length);
        if (taken === true) return TAKEN;
        noteBorrowed(data, taken);
        return taken;
      }
    }
    const stable = lease === undefined && isReused(data) ? copyOf(data) : data;
    const { sent } = this.#queue.push(stable, lease);
    noteBorrowed(stable, sent);
    lease?.markTaken();
    this.backpressureEvents++;
    return sent;
  }

  /**
   * As `send`, of memory that nobody else uses or changes. Answers with the send itself where it waits.
   * @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL`
   */
  sendOrWait(data: Uint8Array): WaitingSend | Promise<void> {
    if (this.#queue.length === 0) {
      const taken = this.#hooks.submit(data, undefined, true);
      if (taken !== false) {
        this.count(data.length);
        return taken === true ? TAKEN : taken;
      }
    }
    const waiting = this.#queue.push(data, undefined);
    this.backpressureEvents++;
    return waiting;
  }

  /** Takes back a send that waits, which is then settled as if it had left. `false`: it does not wait. */
  withdraw(waiting: WaitingSend): boolean {
    if (!waiting.waits || waiting === this.#submitted) return false;
    this.#queue.withdraw(waiting);
    waiting.resolve();
    return true;
  }

  trySend(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    if (this.#queue.length > 0 || this.#hooks.submit(data, lease, false) === false) {
      this.backpressureEvents++;
      return false;
    }
    lease?.markTaken();
    this.count(data.length);
    return true;
  }

  /** A message of so many bytes was tried past this, while nothing waited here; or something did. Answers whether it was taken. */
  tried(taken: boolean, bytes: number): boolean {
    if (taken) this.count(bytes);
    else this.backpressureEvents++;
    return taken;
  }

  /** The transport has room again: those that wait go first. */
  flush(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    try {
      for (let next = this.#queue.peek(); next !== undefined; next = this.#queue.peek()) {
        if (next.data.length !== next.bytes) {
          this.#queue.shift();
          next.lease?.owner.freeOutgoing(next.lease);
          next.reject(messageGone());
          continue;
        }
        this.#submitted = next;
        if (next.onSubmit !== undefined) next.onSubmit();
        const taken = this.#hooks.submit(next.data, next.lease, true);
        this.#submitted = undefined;
        if (taken === false) break;
        this.#queue.shift();
        this.count(next.bytes);
        if (taken === true) next.resolve();
        else taken.then(next.resolve, next.reject);
      }
    } finally {
      this.#flushing = false;
      this.#submitted = undefined;
    }
  }

  drain(): Promise<void> {
    if (this.empty) return TAKEN;
    return new Promise((resolve, reject) => {
      this.#drainWaiters.push({ resolve, reject });
      this.#hooks.awaitLeaving();
    });
  }

  /** Tells those who wait for `drain()`, if there is something to tell. */
  settleDrainIfEmpty(): void {
    if (this.#drainWaiters.length === 0) return;
    if (this.empty) this.finish();
    else this.#hooks.awaitLeaving();
  }

  /** Everything has left. */
  finish(): void {
    for (const waiter of this.#drainWaiters.splice(0)) waiter.resolve();
  }

  /** The connection has failed: everything that waits here fails with it, and no part of that has left. */
  fail(error: VerbmqError): void {
    this.#queue.fail(error.withKnownOutcome());
    for (const waiter of this.#drainWaiters.splice(0)) waiter.reject(error);
  }

  /** A message of so many bytes was sent. */
  count(bytes: number): void {
    this.messagesSent++;
    this.bytesSent += bytes;
  }
}
