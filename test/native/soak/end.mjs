// One end of one connection of a soak: sends in every way there is, and checks all that comes.
import { randomFrom } from '../../support/random.mjs';

/** @typedef {import('@verbmq/core').Connection} Connection */
/** @typedef {import('@verbmq/core').Message} Message */
/** @typedef {import('./script.mjs').Script} Script */
/** @typedef {import('./script.mjs').Side} Side */

/** Sends that nobody has waited for yet, at most. */
const BURST = 16;
/** Messages that are retained at a time, at most. */
const KEPT = 8;

/**
 * @typedef {object} EndResult
 * @property {string} how `closed` in order, with all messages in both directions, or the code of the error
 * @property {number} received messages, each the next one and with every byte right
 * @property {number} bytes in them
 */

/**
 * @param {Connection} connection
 * @param {Script} script
 * @param {number} number of the connection
 * @param {Side} side which this is
 * @param {() => void} [onMessage] called when a message has come, and was right
 * @returns {Promise<EndResult>} Rejects when anything came that should not have, or something did not.
 */
export async function liveEnd(connection, script, number, side, onMessage = () => {}) {
  const life = script.life(number);
  const receiving = new Receiving(connection, script, number, side, onMessage);
  const sending = send(connection, script, number, side).then(
    () => undefined,
    (error) => error,
  );
  if (life.abortAt === undefined && life.endedBy === side) {
    Promise.all([sending, receiving.complete]).then(() => connection.close());
  }
  const info = await connection.closed;
  const failure = await sending;
  await receiving.end();
  const { received, bytes, fault } = receiving;
  const where = `connection ${number}, ${side}, message ${received} of ${life.messages}, seed ${script.seed}`;
  if (fault !== undefined) throw new Error(`${fault} (${where})`);
  if (!info.graceful) return { how: info.error?.code ?? 'no error', received, bytes };
  if (received < life.messages || life.abortAt !== undefined || failure !== undefined)
    throw new Error(`an orderly end that was none (${where})`, { cause: failure });
  return { how: 'closed', received, bytes };
}

/** @param {Connection} connection @param {Script} script @param {number} number @param {Side} side */
async function send(connection, script, number, side) {
  const random = randomFrom(script.seed, number, side === 'client' ? 3 : 4);
  /** @type {Promise<void>[]} */
  const burst = [];
  const sent = () => Promise.all(burst.splice(0));
  /** @param {Promise<void>} sending */
  const wait = (sending) => {
    sending.catch(() => {}); // it is met in `sent`, which may be later
    burst.push(sending);
  };
  for (let n = 0; n < script.life(number).messages; n++) {
    const bytes = script.message(number, side, n);
    const way = random();
    if (way < 0.4) wait(connection.send(await leased(connection, bytes, sent)));
    else if (way < 0.9 || !connection.trySend(bytes)) wait(connection.send(bytes));
    if (burst.length === BURST || random() < 0.2) await sent();
  }
  await sent();
}

/** @param {Connection} connection @param {Uint8Array} bytes @param {() => Promise<unknown>} sent makes memory free */
async function leased(connection, bytes, sent) {
  let lease;
  try {
    lease = connection.allocate(bytes.byteLength);
  } catch (error) {
    if (error.code !== 'ERR_VERBMQ_NO_BUFFERS') throw error;
    await sent();
    lease = connection.allocate(bytes.byteLength);
  }
  lease.data.set(bytes);
  return lease;
}

/** What comes, and what of it is kept for a while. */
class Receiving {
  received = 0;
  bytes = 0;
  /** @type {string | undefined} the first thing that was wrong */
  fault;
  /** @type {{message: Message, n: number}[]} */
  #kept = [];

  /** @param {Connection} connection @param {Script} script @param {number} number @param {Side} side @param {() => void} onMessage */
  constructor(connection, script, number, side, onMessage) {
    const { messages, endedBy, abortAt } = script.life(number);
    const peer = side === 'client' ? 'server' : 'client';
    const random = randomFrom(script.seed, number, side === 'client' ? 5 : 6);
    this.connection = connection;
    this.expected = (n) => script.message(number, peer, n);
    /** Resolves when all messages have come. */
    this.complete = new Promise((resolve) => {
      connection.onMessage((message) => {
        const n = this.received++;
        this.bytes += message.byteLength;
        if (n >= messages) return this.#failed('a message came that was never sent');
        this.#check(message, n, 'has changed on its way, or its place');
        if (random() < 0.1) this.#kept.push({ message: message.retain(), n });
        if (this.#kept.length > 0 && (this.#kept.length > KEPT || random() < 0.1)) {
          this.#letGo(Math.floor(random() * this.#kept.length));
        }
        if (random() < 0.01) {
          connection.pause();
          setImmediate(() => connection.resume());
        }
        onMessage();
        if (n === abortAt && endedBy === side) connection.abort('this is its turn to be aborted');
        if (this.received === messages) resolve(undefined);
      });
    });
  }

  /** The connection has ended; what a pause held back is still there, and what was kept must have outlived it. */
  async end() {
    while (this.connection.stats().messagesQueued > 0) await new Promise((resolve) => setImmediate(resolve));
    while (this.#kept.length > 0) this.#letGo(0);
  }

  /** @param {number} index */
  #letGo(index) {
    const [{ message, n }] = this.#kept.splice(index, 1);
    this.#check(message, n, 'has changed while it was retained');
    message.release();
  }

  /** @param {Message} message @param {number} n @param {string} fault */
  #check({ data }, n, fault) {
    if (Buffer.compare(data, this.expected(n)) !== 0) this.#failed(`message ${n} ${fault}`);
  }

  /** @param {string} fault */
  #failed(fault) {
    this.fault ??= fault;
    this.connection.abort(fault);
  }
}
