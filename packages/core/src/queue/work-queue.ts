import { VerbmqError } from '../contract/errors.js';
import { Line } from '../contract/line.js';
import type { MessageHeaders } from '../rpc/message-headers.js';
import { Backlog } from './backlog.js';
import type { Consumer } from './consumer.js';
import { entryBytes, type HeldBytes } from './held-bytes.js';

/** What becomes of a push to a queue that is full. */
export type WhenFull = 'refuse' | 'wait' | 'drop-oldest' | 'drop-newest';

export interface WorkQueueLimits {
  readonly maxReady: number;
  readonly maxReadyBytes: number;
  /** Throws for work that no consumer could be given; `bytes` is about how much memory it takes. */
  readonly check: (work: Work, bytes: number) => void;
  /** Shared with all other queues. */
  readonly held: HeldBytes;
  readonly whenFull: WhenFull;
  readonly maxAttempts: number;
  readonly onDead: (queue: string, body: unknown, attempts: number) => void;
  /** The queue holds nothing, and nobody waits at it. */
  readonly onIdle: (queue: WorkQueue) => void;
}

/** Who pushes, and may stop waiting for room. */
export interface Pusher {
  readonly signal: AbortSignal;
}

/** Somebody who waits for room. */
interface Waiting {
  readonly entry: Entry;
  readonly taken: () => void;
}

/** What somebody pushes. */
export interface Work {
  readonly body: unknown;
  readonly headers: MessageHeaders | undefined;
}

/** Work that waits or is being done. */
export interface Entry extends Work {
  /** About how much memory it takes. */
  readonly bytes: number;
  /** How often it was given to a consumer. */
  attempts: number;
}

/** Counters of a queue since it came into being. A snapshot. */
export interface QueueStats {
  /** Waiting for a consumer. */
  readonly ready: number;
  /** About how much memory that takes, in bytes. */
  readonly readyBytes: number;
  /** Given to a consumer, and not acknowledged yet. */
  readonly unacknowledged: number;
  /** Those that work at it now. */
  readonly consumers: number;
  /** How much came, and how much was done. */
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
  readonly #ready = new Backlog();
  readonly #consumers = new Set<Consumer>();
  /** Those of them that have room, each in its turn: however many are full, nobody looks at them. */
  readonly #free = new Line<Consumer>();
  /** Those who wait for room, each in its turn. */
  readonly #waiting = new Line<Waiting>();
  /** Pushes that are not over. What checks their work may look at queues, and push as well. */
  #pushing = 0;
  #readyBytes = 0;
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
    return this.#ready.length;
  }

  get idle(): boolean {
    return (
      this.ready === 0 && this.#unacknowledged === 0 && this.#consumers.size === 0 && this.#pushing === 0
    );
  }

  stats(): QueueStats {
    return {
      ready: this.ready,
      readyBytes: this.#readyBytes,
      unacknowledged: this.#unacknowledged,
      consumers: this.#consumers.size,
      pushed: this.#pushed,
      acknowledged: this.#acknowledged,
      redelivered: this.#redelivered,
      dropped: this.#dropped,
      dead: this.#dead,
    };
  }

  /**
   * Resolves when the work is taken.
   * @throws what `check` does; VerbmqError `ERR_VERBMQ_OVERLOADED` where the queue is full and refuses; where the work is larger than what the
   *   queue may hold; and where all queues together are full.
   */
  async push({ body, headers }: Work, pusher: Pusher): Promise<void> {
    const { maxReadyBytes, whenFull, held } = this.#limits;
    this.#pushing++;
    try {
      const bytes = entryBytes(headers === undefined ? body : [body, headers], maxReadyBytes);
      const entry: Entry = { body, headers, bytes, attempts: 0 };
      if (bytes <= maxReadyBytes) this.#limits.check(entry, bytes);
      if (whenFull === 'drop-oldest') this.#makeRoom(entry);
      if (!this.#fits(entry) || this.#waiting.length > 0) {
        if (whenFull === 'drop-newest' || whenFull === 'drop-oldest') {
          this.#dropped++;
          return;
        }
        if (whenFull === 'refuse' || entry.bytes > maxReadyBytes) throw this.#full(entry);
      }
      if (!held.fits(entry.bytes)) {
        throw new VerbmqError(
          'ERR_VERBMQ_OVERLOADED',
          `the queues hold ${held.held} bytes already (maxHeldBytes)`,
          {
            reason: 'memory',
          },
        );
      }
      held.take(entry.bytes);
      if (!this.#fits(entry) || this.#waiting.length > 0) await this.#room(entry, pusher.signal);
      else this.#take(entry);
      this.dispatch();
    } finally {
      this.#pushing--;
      this.#noteIdle();
    }
  }

  add(consumer: Consumer): void {
    this.#consumers.add(consumer);
    this.#free.add(consumer);
    this.dispatch();
  }

  /** A consumer has gone: what it had not acknowledged is done again, before all else and in its order. */
  remove(consumer: Consumer, unacknowledged: readonly Entry[]): void {
    if (!this.#consumers.delete(consumer)) return;
    this.#free.delete(consumer);
    for (const entry of [...unacknowledged].reverse()) this.#again(entry);
    this.dispatch();
    this.#noteIdle();
  }

  /** `consumer`, who had this entry, has done it. */
  acknowledged(entry: Entry, consumer: Consumer): void {
    this.#unacknowledged--;
    this.#acknowledged++;
    this.#limits.held.giveBack(entry.bytes);
    this.#free.add(consumer);
    this.dispatch();
    this.#noteIdle();
  }

  /** `consumer` did not do this entry: it is given to somebody again, or given up. */
  rejected(entry: Entry, again: boolean, consumer: Consumer): void {
    this.#free.add(consumer);
    if (again) this.#again(entry);
    else this.#giveUp(entry);
    this.dispatch();
    this.#noteIdle();
  }

  /** Gives what waits to those who have room, each in turn. */
  dispatch(): void {
    while (this.ready > 0) {
      const consumer = this.#free.shift();
      if (consumer === undefined) return;
      if (!consumer.hasRoom) continue; // until it judges something
      this.#free.add(consumer);
      const entry = this.#shift() as Entry;
      if (entry.attempts > 0) this.#redelivered++;
      entry.attempts++;
      this.#unacknowledged++;
      consumer.give(entry);
    }
  }

  #noteIdle(): void {
    if (this.idle) this.#limits.onIdle(this);
  }

  #fits(entry: Entry): boolean {
    const { maxReady, maxReadyBytes } = this.#limits;
    return this.ready < maxReady && this.#readyBytes + entry.bytes <= maxReadyBytes;
  }

  #full(entry: Entry): VerbmqError {
    return new VerbmqError(
      'ERR_VERBMQ_OVERLOADED',
      `the queue ${this.name} holds ${this.ready} already, of ${this.#readyBytes} bytes: there is no room for ${entry.bytes} more (maxReady, maxReadyBytes)`,
      { reason: 'queue-full' },
    );
  }

  /** Drops what has waited longest, unless that would not make room for `entry`. */
  #makeRoom(entry: Entry): void {
    const { maxReadyBytes, held } = this.#limits;
    if (entry.bytes > maxReadyBytes || !held.fits(entry.bytes, this.#readyBytes)) return;
    while (!this.#fits(entry) || !held.fits(entry.bytes)) {
      held.giveBack((this.#shift() as Entry).bytes);
      this.#dropped++;
    }
  }

  #take(entry: Entry): void {
    this.#pushed++;
    this.#ready.push(entry);
    this.#readyBytes += entry.bytes;
  }

  #again(entry: Entry): void {
    if (entry.attempts >= this.#limits.maxAttempts) {
      this.#giveUp(entry);
      return;
    }
    this.#unacknowledged--;
    this.#readyBytes += entry.bytes;
    this.#ready.unshift(entry);
  }

  #giveUp(entry: Entry): void {
    this.#unacknowledged--;
    this.#dead++;
    this.#limits.held.giveBack(entry.bytes);
    this.#limits.onDead(this.name, entry.body, entry.attempts);
  }

  #shift(): Entry | undefined {
    const entry = this.#ready.shift();
    if (entry === undefined) return undefined;
    this.#readyBytes -= entry.bytes;
    this.#admit();
    return entry;
  }

  /** Takes what waits for room, as far as there is room now. */
  #admit(): void {
    for (
      let next = this.#waiting.peek();
      next !== undefined && this.#fits(next.entry);
      next = this.#waiting.peek()
    ) {
      this.#waiting.shift();
      this.#take(next.entry);
      next.taken();
    }
  }

  /** Resolves when `entry` was taken; rejects when the pusher does not wait any more. */
  #room(entry: Entry, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        entry,
        taken: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      const leave = (): void => {
        this.#waiting.delete(waiting);
        this.#limits.held.giveBack(entry.bytes);
        this.#admit(); // what waited behind it may be smaller
        this.dispatch();
        reject(signal.reason);
      };
      if (signal.aborted) {
        leave();
        return;
      }
      this.#waiting.add(waiting);
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}
