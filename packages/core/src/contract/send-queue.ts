import { VerbmqError } from './errors.js';
import { Fifo } from './fifo.js';
import type { OutgoingLease } from './outgoing-lease.js';

const NOTHING = new Uint8Array(0);

/** A send that waits for room in the transport. */
export class WaitingSend {
  data: Uint8Array;
  /** The length of the data when they came: those of the application may be transferred or resized while they wait. */
  readonly bytes: number;
  readonly lease: OutgoingLease | undefined;
  /** Whether it is still in line. */
  waits = true;
  /** Called whenever it is about to be given to the transport: for what must be true then. */
  onSubmit: (() => void) | undefined = undefined;
  resolve!: () => void;
  reject!: (error: unknown) => void;
  readonly sent: Promise<void>;

  constructor(data: Uint8Array, lease: OutgoingLease | undefined) {
    this.data = data;
    this.bytes = data.length;
    this.lease = lease;
    this.sent = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

/** What a waiting send costs beyond its bytes, as measured: its promise, its entry here, and the array that shows its bytes. */
const OVERHEAD_BYTES = 512;

/** So many that were withdrawn may keep their places, and as many as those that wait. */
const MAX_EMPTY_PLACES = 16;

/** The sends that found no room, first come first served, bounded in bytes. */
export class SendQueue {
  readonly #entries = new Fifo<WaitingSend>();
  #bytes = 0;
  readonly #maxBytes: number;
  readonly #changed: () => void;
  /** Read-only; a field, for it is asked for with each message. */
  length = 0;

  /** @param changed called when the length has changed */
  constructor(maxBytes: number, changed: () => void = () => {}) {
    this.#maxBytes = maxBytes;
    this.#changed = changed;
  }

  /** Payload bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL`; a queue that is empty takes anything. */
  push(data: Uint8Array, lease: OutgoingLease | undefined): WaitingSend {
    const held = this.#bytes + (this.length + 1) * OVERHEAD_BYTES + data.length;
    if (this.length > 0 && held > this.#maxBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_SEND_QUEUE_FULL',
        `${this.length} sends with ${this.#bytes} bytes wait already (maxQueuedBytes is ${this.#maxBytes}): await send() before the next one`,
      );
    }
    const waiting = new WaitingSend(data, lease);
    this.#entries.push(waiting);
    this.length++;
    this.#bytes += waiting.bytes;
    this.#changed();
    return waiting;
  }

  peek(): WaitingSend | undefined {
    let first = this.#entries.peek();
    while (first !== undefined && !first.waits) {
      this.#entries.shift();
      first = this.#entries.peek();
    }
    return first;
  }

  /** Takes the one that `peek` shows. */
  shift(): void {
    const first = this.peek();
    if (first === undefined) return;
    this.#entries.shift();
    this.#leave(first);
  }

  /** Takes one out of the line, wherever it stands. */
  withdraw(waiting: WaitingSend): void {
    this.#leave(waiting);
    if (this.#entries.length <= 2 * this.length + MAX_EMPTY_PLACES) return;
    for (const entry of this.#entries.takeAll()) if (entry.waits) this.#entries.push(entry);
  }

  /** Empties the queue; every promise is rejected with `error`. */
  fail(error: VerbmqError): void {
    for (const entry of this.#entries.takeAll()) {
      if (!entry.waits) continue;
      this.#leave(entry);
      entry.lease?.owner.freeOutgoing(entry.lease);
      entry.reject(error);
    }
  }

  #leave(entry: WaitingSend): void {
    entry.waits = false;
    entry.data = NOTHING; // whoever may still know it, and its place, need not keep that
    this.length--;
    this.#bytes -= entry.bytes;
    this.#changed();
  }
}
