// The two sides of a soak: one accepts connections, the other keeps a number of them open.
import { liveEnd } from './end.mjs';

/** @typedef {import('@verbmq/core').Transport} Transport */
/** @typedef {import('@verbmq/core').Listener} Listener */
/** @typedef {import('@verbmq/core').Connection} Connection */
/** @typedef {import('./script.mjs').Script} Script */

const PATIENCE_MS = 120_000;
/** Options of both sides. A soak is not about time: a machine that is busy with other things takes as long as it takes. */
export const PATIENT = {
  handshakeTimeoutMs: PATIENCE_MS,
  closeTimeoutMs: PATIENCE_MS,
  peerTimeoutMs: PATIENCE_MS,
};

/** Connections at a time. */
export const CONNECTIONS = 16;

/** What has come in on all connections of one side. */
export class Tally {
  received = 0;
  bytes = 0;
  /** @type {Record<string, number>} connections by how they ended */
  ended = {};

  /** @param {import('./end.mjs').EndResult} result */
  add({ how, received, bytes }) {
    this.received += received;
    this.bytes += bytes;
    this.ended[how] = (this.ended[how] ?? 0) + 1;
  }
}

/** The side that accepts. */
export class SoakServer {
  tally = new Tally();
  /** Messages that have come on connections that may still be open. */
  received = 0;
  /** Connections that have not ended. */
  open = 0;
  /** Called with each message that has come. */
  onMessage = () => {};
  #fail = /** @param {unknown} _error */ (_error) => {};
  #noneOpen = () => {};
  #broken;

  /** @param {Listener} listener @param {Script} script */
  constructor(listener, script) {
    this.script = script;
    /** @type {Promise<never>} */
    this.#broken = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.#broken.catch(() => {});
    listener.onConnection((connection) => this.#live(connection).catch(this.#fail));
  }

  /** @param {Connection} connection */
  async #live(connection) {
    this.open++;
    const number = await numberOf(connection);
    const result =
      number === undefined
        ? { how: (await connection.closed).error?.code ?? 'without a word', received: 0, bytes: 0 }
        : await liveEnd(connection, this.script, number, 'server', () => {
            this.received++;
            this.onMessage();
          });
    this.tally.add(result);
    if (--this.open === 0) this.#noneOpen();
  }

  /**
   * @template T
   * @param {Promise<T>} awaited
   * @returns {Promise<T>} Rejects as soon as this side has seen anything that is wrong.
   */
  unlessBroken(awaited) {
    return Promise.race([awaited, this.#broken]);
  }

  /** Resolves when no connection is open. */
  allEnded() {
    return new Promise((resolve) => {
      this.#noneOpen = () => resolve(undefined);
      if (this.open === 0) resolve(undefined);
    });
  }
}

/** @param {Connection} connection @returns {Promise<number | undefined>} the number that comes first, if one comes */
function numberOf(connection) {
  return new Promise((resolve) => {
    const detach = connection.onMessage(({ data }) => {
      detach();
      resolve(new DataView(data.buffer, data.byteOffset).getUint32(0));
    });
    connection.closed.then(() => resolve(undefined));
  });
}

/**
 * The side that connects: keeps CONNECTIONS open, and opens another one for each that has ended, until `messages` have
 * certainly arrived in both directions together.
 *
 * @param {Transport} transport
 * @param {string} url
 * @param {Script} script
 * @param {{messages: number, first: number, tally: Tally}} what `first`: the number of the first connection; `tally` takes
 *   what has come
 * @returns {Promise<number>} the first number that no connection has had
 */
export async function soakAsClient(transport, url, script, { messages, first, tally }) {
  let next = first;
  let arrived = 0;
  async function lane() {
    while (arrived < messages) {
      const number = next++;
      const connection = await transport.connect(url, { timeoutMs: PATIENCE_MS });
      const word = new Uint8Array(4);
      new DataView(word.buffer).setUint32(0, number);
      connection.send(word).catch(() => {}); // if it has ended already, that is told below
      const result = await liveEnd(connection, script, number, 'client');
      tally.add(result);
      arrived += result.received + (result.how === 'closed' ? script.life(number).messages : 0);
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
  return next;
}
