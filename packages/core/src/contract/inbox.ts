import { VerbmqError } from './errors.js';
import { Fifo } from './fifo.js';
import type { Message } from './message.js';

/** Called for each message. The lease ends when it returns; `message.retain()` keeps it. */
export type MessageHandler = (message: Message) => void;

interface Waiter {
  readonly resolve: (result: IteratorResult<Message, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The receiving half of a connection: messages that have arrived, on their way to one handler or one iterator.
 * What waits here occupies the transport's receive credits, so the peer's credits bound it.
 */
export class Inbox {
  readonly #queue = new Fifo<Message>();
  readonly #changed: () => void;
  #holds = true;
  #handler: MessageHandler | undefined;
  #iterator: InboxIterator | undefined;
  #paused = false;
  #draining = false;
  #ended = false;
  #error: VerbmqError | undefined;
  /** After a local close nobody has to read: what nobody waits for is dropped. */
  #discardUnread = false;

  /** @param changed called when `holds` may have changed */
  constructor(changed: () => void) {
    this.#changed = changed;
  }

  get length(): number {
    return this.#queue.length;
  }

  /** Whether the next message does not go to a handler at once. */
  get holds(): boolean {
    return this.#holds;
  }

  /** Gives a message to the handler, unless it `holds`. */
  handle(message: Message): void {
    this.#call(this.#handler as MessageHandler, message);
  }

  push(message: Message): void {
    if (!this.#holds) {
      this.handle(message);
    } else if (this.#discardUnread && this.#handler === undefined && this.#iterator === undefined) {
      message.release();
    } else {
      this.#queue.push(message);
      this.#holdOrNot();
      this.#iterator?.wake();
    }
  }

  shift(): Message | undefined {
    const message = this.#queue.shift();
    this.#holdOrNot();
    return message;
  }

  /** `undefined` while messages may still come; `null` after the orderly end; the error after any other. */
  get end(): VerbmqError | null | undefined {
    return this.#ended ? (this.#error ?? null) : undefined;
  }

  /** @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when a handler or an iterator receives already. */
  attachHandler(handler: MessageHandler): () => void {
    this.#assertFree();
    this.#handler = handler;
    this.#holdOrNot();
    this.#drainSoon();
    return () => {
      if (this.#handler !== handler) return;
      this.#handler = undefined;
      this.#holdOrNot();
      if (this.#discardUnread) this.#discard();
    };
  }

  attachIterator(): AsyncIterableIterator<Message, undefined> {
    this.#assertFree();
    this.#iterator = new InboxIterator(this, () => {
      this.#iterator = undefined;
      if (this.#discardUnread) this.#discard();
    });
    return this.#iterator;
  }

  pause(): void {
    this.#paused = true;
    this.#holdOrNot();
  }

  resume(): void {
    this.#paused = false;
    this.#holdOrNot();
    this.#drainSoon();
  }

  /** From now on, messages that nobody is there to receive are dropped. */
  discardUnread(): void {
    this.#discardUnread = true;
    if (this.#handler === undefined && this.#iterator === undefined) this.#discard();
  }

  /** No more messages will come. With `dropQueued`, those that wait are dropped too. */
  finish(error: VerbmqError | undefined, dropQueued: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    if (dropQueued) this.#discard();
    this.#iterator?.wake();
  }

  /** After each change of what it depends on. */
  #holdOrNot(): void {
    this.#holds = this.#handler === undefined || this.#paused || this.length > 0;
    this.#changed();
  }

  #discard(): void {
    for (let message = this.shift(); message !== undefined; message = this.shift()) message.release();
  }

  #assertFree(): void {
    if (this.#handler !== undefined || this.#iterator !== undefined) {
      throw new VerbmqError(
        'ERR_VERBMQ_RECEIVER_ATTACHED',
        'this connection has a message handler or an iterator already; detach it first',
      );
    }
  }

  #drainSoon(): void {
    if (this.#draining || this.length === 0) return;
    this.#draining = true;
    queueMicrotask(() => {
      this.#draining = false;
      while (this.#handler !== undefined && !this.#paused) {
        const message = this.shift();
        if (message === undefined) return;
        this.#call(this.#handler, message);
      }
    });
  }

  #call(handler: MessageHandler, message: Message): void {
    try {
      handler(message);
    } catch (error) {
      // The program's own fault, reported as Node reports it for any event; the rest of the batch goes on.
      process.nextTick(() => {
        throw error;
      });
    }
    if (!message.retained) message.release();
  }
}

/**
 * Pulls from the inbox. The lease of a message ends when the next one is asked for, unless it was retained. Who asks for several before
 * the first is there gets them together, and they end together: with what is asked for after that.
 */
class InboxIterator implements AsyncIterableIterator<Message, undefined> {
  readonly #inbox: Inbox;
  readonly #detach: () => void;
  readonly #waiters = new Fifo<Waiter>();
  /** The message that was handed out, where there was one call of `next` at a time. */
  #current: Message | undefined;
  /** Whether the caller can have it: until then a call of `next` is not the one that ends its lease. */
  #currentIsSeen = true;
  readonly #see = (): void => {
    this.#currentIsSeen = true;
  };
  /** Those that were handed out together; the first of them may not have reached their callers yet. */
  #together: Message[] = [];
  #fresh: Message[] = [];
  #done = false;

  constructor(inbox: Inbox, detach: () => void) {
    this.#inbox = inbox;
    this.#detach = detach;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Message, undefined>> {
    this.#endLeases();
    if (this.#done) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
      this.wake();
    });
  }

  return(): Promise<IteratorResult<Message, undefined>> {
    this.#currentIsSeen = true;
    this.#endLeases();
    this.#finish();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Something has arrived, or nothing will. */
  wake(): void {
    while (this.#waiters.length > 0) {
      const message = this.#inbox.shift();
      if (message !== undefined) {
        const waiter = this.#waiters.shift();
        this.#handOut(message);
        waiter?.resolve({ done: false, value: message });
        continue;
      }
      const end = this.#inbox.end;
      if (end === undefined) return;
      if (end !== null) this.#waiters.shift()?.reject(end);
      this.#finish();
    }
  }

  #finish(): void {
    if (this.#done) return;
    this.#done = true;
    // Where as many wait as have got one, nobody works on one any more, and nobody may ask again.
    if (this.#waiters.length >= this.#together.length) this.#endLeases();
    for (const waiter of this.#waiters.takeAll()) waiter.resolve({ done: true, value: undefined });
    this.#detach();
  }

  #handOut(message: Message): void {
    const alone =
      this.#current === undefined &&
      this.#waiters.length === 0 &&
      this.#together.length === 0 &&
      this.#fresh.length === 0;
    if (alone) {
      this.#current = message;
      this.#currentIsSeen = false;
      queueMicrotask(this.#see);
    } else this.#handOutTogether(message);
  }

  /**
   * Several callers run on one after the other; the first of them may ask again before the last has seen its message. And who has one may
   * wait for those of the others: so none of them holds back the peer.
   */
  #handOutTogether(message: Message): void {
    message.keep();
    if (this.#fresh.push(message) > 1) return;
    setImmediate(() => {
      this.#together.push(...this.#fresh);
      this.#fresh = [];
      if (this.#done) this.#endLeases();
    });
  }

  #endLeases(): void {
    const current = this.#current;
    if (current !== undefined) {
      this.#current = undefined;
      if (this.#currentIsSeen) end(current);
      else this.#handOutTogether(current);
    }
    if (this.#together.length > 0) for (const message of this.#together.splice(0)) end(message);
  }
}

function end(message: Message): void {
  if (!message.retained) message.release();
}
