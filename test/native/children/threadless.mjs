// A process in which no thread can be made (../threads/refusing.cc) while it connects and disconnects over a device like siw. It says what it
// has done. Its arguments: the library of a simulated device, and what controls it.
import { createRequire } from 'node:module';
import { RdmaTransport } from '@verbmq/native';

const [library, control] = process.argv.slice(2);
const { call } = createRequire(import.meta.url)(control);
call(library, 'reset', 'siw');
const calls = () => call(library, 'calls', 'rdma_connect');

const libraries = { ibverbs: library, rdmacm: library };
const server = new RdmaTransport({ libraries });
const client = new RdmaTransport({ libraries });
const listener = await server.listen('rdma://127.0.0.1:0');
listener.onConnection((connection) => connection.onMessage(({ data }) => void connection.send(data)));

/** @param {Promise<import('@verbmq/core').Connection>} connecting */
async function exchange(connecting) {
  const connection = await connecting;
  const answered = new Promise((resolve) => connection.onMessage(resolve));
  await connection.send(new Uint8Array(8));
  await answered;
  return connection;
}

// The device has its thread from its first use on.
await (await exchange(client.connect(listener.url))).close();
while (call(library, 'live', 'qp') > 0) await new Promise(setImmediate);

process.env.VERBMQ_NO_THREADS = '1';
const connection = await exchange(client.connect(listener.url));
console.log('connected');
await connection.close();
console.log('closed');
console.log((await client.probe()).available ? 'probed' : 'unavailable');
while (call(library, 'live', 'qp') > 0) await new Promise(setImmediate);

// One thread is there, which waits for a peer. The loop goes on, and what it is asked for next is done behind that.
delete process.env.VERBMQ_NO_THREADS;
call(library, 'set', 'connect_blocks_us', 3_600_000_000);
const before = calls();
const first = exchange(client.connect(listener.url));
while (calls() === before) await new Promise(setImmediate);
process.env.VERBMQ_NO_THREADS = '1';
const second = exchange(client.connect(listener.url));
while (call(library, 'live', 'qp') < 2) await new Promise(setImmediate);
console.log(`in line: ${calls() - before}`);
call(library, 'set', 'connect_blocks_us', 0);
await Promise.all([first, second]);
console.log(`connected: ${calls() - before}`);
await Promise.all([client.close(), server.close()]);
while (call(library, 'live', 'qp') > 0) await new Promise(setImmediate);
console.log('over');
