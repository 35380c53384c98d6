import { createHash } from 'node:crypto';
import type { Connection } from '@verbmq/core';
import { pattern } from './messages.js';

/** The number, u32, and the beginning of a checksum; a shorter message has so much of them as it has bytes. */
const HEAD_BYTES = 12;

/** Nine of ten messages are at most so long. */
const SHORT_BYTES = 4096;

/** Messages begin at one of so many places of a pattern. */
const BEGINNINGS = 4093;

/**
 * Sends messages that are numbered and checksummed as fast as the connection takes them. Their lengths are random, from 0
 * to `maxBytes` bytes, with as many from 3 to 30 as from 300 to 3,000.
 */
export class NumberedSender {
  sent = 0;
  readonly #maxBytes: number;
  readonly #random: () => number;
  readonly #bytes: Uint8Array;
  readonly #running: Promise<void>;
  #stopped = false;

  /** @param onSent called whenever the connection has taken a message. */
  constructor(to: Connection, maxBytes: number, random = Math.random, onSent = (): void => {}) {
    this.#maxBytes = maxBytes;
    this.#random = random;
    this.#bytes = pattern(maxBytes + BEGINNINGS);
    this.#running = this.#run(to, onSent);
    this.#running.catch(() => {}); // `stop` tells
  }

  /** Resolves when the last one was sent. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#running;
  }

  async #run(to: Connection, onSent: () => void): Promise<void> {
    while (!this.#stopped && to.state === 'open') {
      const message = this.#next();
      this.sent++;
      await to.send(message);
      onSent();
      if (this.sent % 20 === 0) await nextTurn();
    }
  }

  #next(): Uint8Array {
    const most = this.#random() < 0.9 ? Math.min(this.#maxBytes, SHORT_BYTES) : this.#maxBytes;
    const length = Math.floor((most + 2) ** this.#random()) - 1;
    const begin = this.sent % BEGINNINGS;
    const message = this.#bytes.slice(begin, begin + length);
    message.set(headOf(this.sent, message.subarray(HEAD_BYTES)).subarray(0, length));
    return message;
  }
}

interface Goal {
  readonly received: number;
  readonly reached: () => void;
}

/** Finds whatever of them is lost, repeated, out of order or changed. */
export class NumberedReceiver {
  received = 0;
  /** Of all that came, in bytes. */
  receivedBytes = 0;
  #goals: Goal[] = [];
  #fail!: (error: Error) => void;
  /** Rejects at the first message that is not the next one, unchanged. */
  readonly broken: Promise<never> = new Promise((_resolve, reject) => {
    this.#fail = reject;
  });

  /** @param onReceived called with each message. */
  constructor(from: Connection, onReceived = (): void => {}) {
    this.broken.catch(() => {}); // those who wait are told
    from.onMessage((message) => {
      this.#check(message.data);
      onReceived();
    });
  }

  /** Resolves when so many have arrived. */
  reached(goal: number): Promise<void> {
    const reached = new Promise<void>((resolve) => {
      if (this.received >= goal) resolve();
      else this.#goals.push({ received: goal, reached: resolve });
    });
    return Promise.race([reached, this.broken]);
  }

  #check(message: Uint8Array): void {
    const due = this.received;
    const head = headOf(due, message.subarray(HEAD_BYTES));
    if (Buffer.compare(message.subarray(0, HEAD_BYTES), head.subarray(0, message.length)) !== 0)
      this.#fail(new Error(`where message ${due} was due came ${describe(message)}`));
    this.received++;
    this.receivedBytes += message.length;
    if (this.#goals.length === 0) return;
    for (const { received, reached } of this.#goals) if (this.received >= received) reached();
    this.#goals = this.#goals.filter(({ received }) => this.received < received);
  }
}

/** Both ends of a stream, where they are in one process. */
export class NumberedStream {
  readonly #sender: NumberedSender;
  readonly #receiver: NumberedReceiver;

  constructor(from: Connection, to: Connection, maxBytes: number) {
    this.#receiver = new NumberedReceiver(to);
    this.#sender = new NumberedSender(from, maxBytes);
  }

  /** Sends no more; resolves when everything has arrived. */
  async finish(): Promise<void> {
    await Promise.race([this.#sender.stop(), this.#receiver.broken]);
    await this.#receiver.reached(this.#sender.sent);
  }

  /** Resolves when so many more messages have arrived. */
  progress(count: number): Promise<void> {
    return this.#receiver.reached(this.#receiver.received + count);
  }
}

/** Traffic in both directions at once; `progress` resolves when so many more messages have arrived in each. */
export function streamsBetween(client: Connection, server: Connection, maxBytes: number) {
  const traffic = [
    new NumberedStream(client, server, maxBytes),
    new NumberedStream(server, client, maxBytes),
  ];
  const progress = (count: number): Promise<unknown> =>
    Promise.all(traffic.map((stream) => stream.progress(count)));
  return { traffic, progress };
}

function headOf(number: number, body: Uint8Array): Uint8Array {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(number);
  createHash('md5').update(head.subarray(0, 4)).update(body).digest().copy(head, 4);
  return head;
}

function describe(message: Uint8Array): string {
  const bytes = `${message.length} bytes`;
  if (message.length < HEAD_BYTES) return bytes;
  return `${bytes} with the number ${Buffer.from(message.subarray(0, 4)).readUInt32LE()}`;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
