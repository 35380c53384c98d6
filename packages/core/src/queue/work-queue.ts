import { VerbmqError } from '../contract/errors.js';
import type { Consumer } from './consumer.js';

/** What becomes of a push to a queue that is full. */
export type WhenFull = 'refuse' | 'wait' | 'drop-oldest' | 'drop-newest';

export interface WorkQueueLimits {
  readonly maxReady: number;
  readonly whenFull: WhenFull;
  readonly maxAttempts: number;
  readonly onDead: ((queue: string, body: unknown, attempts: number) => void) | undefined;
}

/** Who pushes, and may stop waiting for room. */
export interface Pusher {
  readonly signal: AbortSignal;
}

/** Work that waits or is being done. */
export interface Entry {
  readonly id: number;
  readonly body: unknown;
  /** How often it was given to a consumer. */
  attempts: number;
}

export interface QueueStats {
  /** Waiting for a consumer. */
  readonly ready: number;
  /** Given to a consumer, and not acknowledged yet. */
  readonly unacknowledged: number;
  readonly consumers: number;
  readonly pushed: number;
  readonly acknowledged: number;
  /** Given again, after a rejection, a timeout, or the loss of a consumer. */
  readonly redelivered: number;
  /** Left out because the queue was full. */
  readonly dropped: number;
  /** Given up after too many attempts, or rejected for good. */
  readonly dead: number;
}

/** One queue: what waits, and who works. Everything is in memory, and is gone with the process. */
export class WorkQueue {
  readonly name: string;
  readonly #limits: WorkQueueLimits;
  #ready: Entry[] = [];
  #head = 0;
  #consumers: Consumer[] = [];
  /** Whose turn it is. */
  #turn = 0;
  #waiting: (() => void)[] = [];
  #ids = 0;
  #unacknowledged = 0;
  #pushed = 0;
  #acknowledged = 0;
  #redelivered = 0;
  #dropped = 0;
  #dead = 0;

  constructor(name: string, limits: WorkQueueLimits) {
    this.name = name;
    this.#limits = limits;
  }

  get ready(): number {
    return this.#ready.length - this.#head;
  }

  get idle(): boolean {
    return (
      this.ready === 0 &&
      this.#unacknowledged === 0 &&
      this.#consumers.length === 0 &&
      this.#waiting.length === 0
    );
  }

  stats(): QueueStats {
    return {
      ready: this.ready,
      unacknowledged: this.#unacknowledged,
      consumers: this.#consumers.length,
      pushed: this.#pushed,
      acknowledged: this.#acknowledged,
      redelivered: this.#redelivered,
      dropped: this.#dropped,
      dead: this.#dead,
    };
  }

  /**
   * Resolves when the work is taken.
   * @throws VerbmqError `ERR_VERBMQ_OVERLOADED` where the queue is full and refuses.
   */
  async push(body: unknown, pusher: Pusher): Promise<void> {
    while (this.ready >= this.#limits.maxReady) {
      const { whenFull, maxReady } = this.#limits;
      if (whenFull === 'refuse') {
        throw new VerbmqError('ERR_VERBMQ_OVERLOADED', `the queue ${this.name} holds ${maxReady} already`, {
          reason: 'queue-full',
        });
      }
      if (whenFull === 'drop-newest') {
        this.#dropped++;
        return;
      }
      if (whenFull === 'drop-oldest') {
        this.#shift();
        this.#dropped++;
      } else {
        await this.#room(pusher.signal);
      }
    }
    this.#pushed++;
    this.#ready.push({ id: ++this.#ids, body, attempts: 0 });
    this.dispatch();
  }

  add(consumer: Consumer): void {
    this.#consumers.push(consumer);
    this.dispatch();
  }

  /** A consumer has gone: what it had not acknowledged is done again, before all else and in its order. */
  remove(consumer: Consumer, unacknowledged: readonly Entry[]): void {
    const index = this.#consumers.indexOf(consumer);
    if (index < 0) return;
    this.#consumers.splice(index, 1);
    if (this.#turn > index) this.#turn--;
    for (const entry of [...unacknowledged].reverse()) this.#again(entry);
    this.dispatch();
  }

  acknowledged(): void {
    this.#unacknowledged--;
    this.#acknowledged++;
    this.dispatch();
  }

  /** Work was not done: it is given to somebody again, or given up. */
  rejected(entry: Entry, again: boolean): void {
    if (again) this.#again(entry);
    else this.#giveUp(entry);
    this.dispatch();
  }

  /** Gives what waits to those who have room, each in turn. */
  dispatch(): void {
    let without = 0;
    while (this.ready > 0 && without < this.#consumers.length) {
      if (this.#turn >= this.#consumers.length) this.#turn = 0;
      const consumer = this.#consumers[this.#turn++] as Consumer;
      if (!consumer.hasRoom) {
        without++;
        continue;
      }
      without = 0;
      const entry = this.#shift() as Entry;
      if (entry.attempts > 0) this.#redelivered++;
      entry.attempts++;
      this.#unacknowledged++;
      consumer.give(entry);
    }
  }

  #again(entry: Entry): void {
    if (entry.attempts >= this.#limits.maxAttempts) {
      this.#giveUp(entry);
      return;
    }
    this.#unacknowledged--;
    if (this.#head > 0) this.#ready[--this.#head] = entry;
    else this.#ready.unshift(entry);
  }

  #giveUp(entry: Entry): void {
    this.#unacknowledged--;
    this.#dead++;
    this.#limits.onDead?.(this.name, entry.body, entry.attempts);
  }

  #shift(): Entry | undefined {
    const entry = this.#ready[this.#head];
    if (entry === undefined) return undefined;
    this.#ready[this.#head++] = undefined as unknown as Entry;
    if (this.#head === this.#ready.length) {
      this.#ready = [];
      this.#head = 0;
    } else if (this.#head > 1024 && this.#head * 2 > this.#ready.length) {
      this.#ready = this.#ready.slice(this.#head);
      this.#head = 0;
    }
    this.#waiting.shift()?.();
    return entry;
  }

  /** Resolves when something has left the queue; rejects when the pusher does not wait any more. */
  #room(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const turn = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(turn), 1);
        reject(signal.reason);
      };
      this.#waiting.push(turn);
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}
