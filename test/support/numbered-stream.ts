import { createHash } from 'node:crypto';
import type { Connection } from '@verbmq/core';

/** Bytes of number and checksum before the rest of a message. */
const HEAD_BYTES = 12;

/**
 * Sends messages that are numbered and checksummed, of random lengths, as fast as the connection takes them, and finds
 * whatever is lost, repeated, out of order or changed on the other side.
 */
export class NumberedStream {
  sent = 0;
  received = 0;
  #stopped = false;
  readonly #from: Connection;
  readonly #running: Promise<void>;
  #fail!: (error: Error) => void;
  /** Rejects at the first message that is not the next one, unchanged. */
  readonly broken: Promise<never> = new Promise((_resolve, reject) => {
    this.#fail = reject;
  });

  constructor(from: Connection, to: Connection, maxBytes: number, random: () => number = Math.random) {
    this.#from = from;
    this.broken.catch(() => {});
    to.onMessage((message) => this.#check(message.data));
    this.#running = this.#run(maxBytes, random);
  }

  /** Sends no more; resolves when everything has arrived. */
  async finish(): Promise<void> {
    this.#stopped = true;
    await Promise.race([this.#running, this.broken]);
    while (this.received < this.sent) await Promise.race([nextTurn(), this.broken]);
  }

  /** Resolves when so many more messages have arrived. */
  async progress(count: number): Promise<void> {
    const goal = this.received + count;
    while (this.received < goal) await Promise.race([nextTurn(), this.broken]);
  }

  async #run(maxBytes: number, random: () => number): Promise<void> {
    while (!this.#stopped) {
      const lengths = random() < 0.9 ? Math.min(maxBytes, 300) : maxBytes;
      const message = Buffer.alloc(HEAD_BYTES + Math.floor(random() * lengths), this.sent);
      message.writeUInt32LE(this.sent, 0);
      checksum(message).copy(message, 4);
      this.sent++;
      await this.#from.send(message);
      if (this.sent % 20 === 0) await nextTurn();
    }
  }

  #check(data: Uint8Array): void {
    const message = Buffer.from(data);
    const number = message.readUInt32LE(0);
    if (number !== this.received)
      this.#fail(new Error(`message ${number} came where ${this.received} was due`));
    else if (!checksum(message).equals(message.subarray(4, HEAD_BYTES)))
      this.#fail(new Error(`message ${number} has changed on its way`));
    this.received++;
  }
}

function checksum(message: Buffer): Buffer {
  return createHash('md5')
    .update(message.subarray(0, 4))
    .update(message.subarray(HEAD_BYTES))
    .digest()
    .subarray(0, HEAD_BYTES - 4);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
