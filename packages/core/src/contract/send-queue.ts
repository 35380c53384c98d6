import { VerbmqError } from './errors.js';
import { Fifo } from './fifo.js';
import type { OutgoingLease } from './outgoing-lease.js';

/** A send that waits for room in the transport. */
export interface WaitingSend {
  readonly data: Uint8Array;
  /** The length of the data when they came: those of the application may be transferred or resized while they wait. */
  readonly bytes: number;
  readonly lease: OutgoingLease | undefined;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What a waiting send costs beyond its bytes: its promise and its entry here. */
const OVERHEAD_BYTES = 64;

/** The sends that found no room, first come first served, bounded in bytes. */
export class SendQueue {
  readonly #entries = new Fifo<WaitingSend>();
  #bytes = 0;
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#entries.length;
  }

  /** Payload bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL`; a queue that is empty takes anything. */
  push(data: Uint8Array, lease: OutgoingLease | undefined): Promise<void> {
    const held = this.#bytes + (this.length + 1) * OVERHEAD_BYTES + data.length;
    if (this.length > 0 && held > this.#maxBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_SEND_QUEUE_FULL',
        `${this.length} sends with ${this.#bytes} bytes wait already (maxQueuedBytes is ${this.#maxBytes}): await send() before the next one`,
      );
    }
    const bytes = data.length;
    this.#bytes += bytes;
    return new Promise((resolve, reject) => {
      this.#entries.push({ data, bytes, lease, resolve, reject });
    });
  }

  peek(): WaitingSend | undefined {
    return this.#entries.peek();
  }

  shift(): void {
    this.#bytes -= this.#entries.shift()?.bytes ?? 0;
  }

  /** Empties the queue; every promise is rejected with `error`. */
  fail(error: VerbmqError): void {
    this.#bytes = 0;
    for (const entry of this.#entries.takeAll()) {
      entry.lease?.owner.freeOutgoing(entry.lease);
      entry.reject(error);
    }
  }
}
