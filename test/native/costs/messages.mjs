// Two ends in one process on the simulated device, and messages of every kind that answer one another from within their
// handlers. Prints what each kind cost, when everything that is made once had been made.
//
// Arguments: the library of the simulated device, the addon that controls it, and how the device behaves.
import { createRequire } from 'node:module';
import { RdmaTransport } from '@verbmq/native';
import { costs, difference } from './counters.mjs';

const [library, control, personality] = process.argv.slice(2);
/** In each direction. */
const MESSAGES = 150;
const LARGE_BYTES = 60 * 1024;

createRequire(import.meta.url)(control).call(library, 'reset', personality);
const started = costs();

/** @param {import('@verbmq/native').RdmaTransportOptions} own */
async function pair(own = {}) {
  const libraries = { ibverbs: library, rdmacm: library };
  // Two threads play the device and the program: where there is much else to do, neither should wait for the other by polling.
  const quiet = { heartbeatIntervalMs: 0, polling: /** @type {const} */ ('event'), libraries };
  const server = new RdmaTransport({ ...quiet, ...own });
  const client = new RdmaTransport(quiet);
  const listener = await server.listen({ host: '127.0.0.1', port: 0 });
  const accepted = new Promise((resolve) => listener.onConnection(resolve));
  const ends = [await client.connect(listener.url), await accepted];
  return { ends, close: () => Promise.all([client.close(), server.close()]) };
}

/**
 * @typedef {import('@verbmq/core').Connection} Connection
 * @typedef {(connection: Connection, message: import('@verbmq/core').Message) => void} Answer
 */

const small = new Uint8Array(64);
const large = new Uint8Array(LARGE_BYTES);
/** @type {import('@verbmq/core').Message[]} */
const kept = [];

/** @param {Connection} connection @param {number} bytes */
function sendLease(connection, bytes) {
  const lease = connection.allocate(bytes);
  lease.data[0] = 1;
  if (!connection.trySend(lease)) throw new Error('there was no room');
}

/** @type {Record<string, {own?: import('@verbmq/native').RdmaTransportOptions, answer: Answer}>} */
const KINDS = {
  'sent on from where they arrived': {
    answer: (connection, { data }) => {
      if (!connection.trySend(data)) throw new Error('there was no room');
    },
  },
  'in leased buffers': { answer: (connection) => sendLease(connection, 64) },
  'in shared receive slots': {
    own: { sharedReceiveQueue: { slots: 64 } },
    answer: (connection) => {
      if (!connection.trySend(small)) throw new Error('there was no room');
    },
  },
  'large, in leased buffers': { answer: (connection) => sendLease(connection, LARGE_BYTES) },
  'large, copied': {
    answer: (connection) => {
      if (!connection.trySend(large)) throw new Error('there was no room');
    },
  },
  'large, and kept until the next has come': {
    answer: (connection, message) => {
      if (message.byteLength === LARGE_BYTES) kept.push(message.retain());
      if (kept.length > 4) kept.shift()?.release();
      sendLease(connection, LARGE_BYTES);
    },
  },
};
/** @param {Connection[]} ends @param {Answer} answer */
async function exchange([client, server], answer) {
  let left = 2 * MESSAGES;
  /** @type {(value?: unknown) => void} */
  let done = () => {};
  const over = new Promise((resolve) => {
    done = resolve;
  });
  const detach = [client, server].map((end) =>
    end.onMessage((message) => {
      if (--left > 0) answer(end, message);
      else done();
    }),
  );
  await client.send(small);
  await over;
  for (const each of detach) each();
}

/** @type {Record<string, import('./counters.mjs').Costs>} */
const report = {};
for (const [kind, { own, answer }] of Object.entries(KINDS)) {
  const { ends, close } = await pair(own);
  for (let round = 0; round < 2; round++) await exchange(ends, answer);
  const before = costs();
  await exchange(ends, answer);
  report[kind] = difference(before, costs());
  for (const message of kept.splice(0)) message.release();
  await close();
}
report.everything = difference(started, costs());
console.log(JSON.stringify({ messages: 2 * MESSAGES, report }));
