import { createHash } from 'node:crypto';
import type { Connection } from '@verbmq/core';

/** Bytes of number and checksum before the rest of a message. */
const HEAD_BYTES = 12;

/** Sends messages that are numbered and checksummed, of random lengths, as fast as the connection takes them. */
export class NumberedSender {
  sent = 0;
  #stopped = false;
  readonly #running: Promise<void>;

  constructor(to: Connection, maxBytes: number) {
    this.#running = this.#run(to, maxBytes);
    this.#running.catch(() => {}); // `stop` tells
  }

  /** Resolves when the last one was sent. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#running;
  }

  async #run(to: Connection, maxBytes: number): Promise<void> {
    while (!this.#stopped && to.state === 'open') {
      const most = Math.random() < 0.9 ? Math.min(maxBytes, 300) : maxBytes;
      const message = Buffer.alloc(HEAD_BYTES + Math.floor(Math.random() * most), this.sent);
      message.writeUInt32LE(this.sent, 0);
      checksum(message).copy(message, 4);
      this.sent++;
      await to.send(message);
      if (this.sent % 20 === 0) await nextTurn();
    }
  }
}

/** Finds whatever of them is lost, repeated, out of order or changed. */
export class NumberedReceiver {
  received = 0;
  #fail!: (error: Error) => void;
  /** Rejects at the first message that is not the next one, unchanged. */
  readonly broken: Promise<never> = new Promise((_resolve, reject) => {
    this.#fail = reject;
  });

  constructor(from: Connection) {
    this.broken.catch(() => {}); // those who wait are told
    from.onMessage((message) => this.#check(Buffer.from(message.data)));
  }

  /** Resolves when so many have arrived. */
  async reached(goal: number): Promise<void> {
    while (this.received < goal) await Promise.race([nextTurn(), this.broken]);
  }

  #check(message: Buffer): void {
    const number = message.readUInt32LE(0);
    if (number !== this.received)
      this.#fail(new Error(`message ${number} came where ${this.received} was due`));
    else if (!checksum(message).equals(message.subarray(4, HEAD_BYTES)))
      this.#fail(new Error(`message ${number} has changed on its way`));
    this.received++;
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
