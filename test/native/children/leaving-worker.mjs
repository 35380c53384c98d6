// A process that has the addon in a worker thread alone, which it terminates while a call to connect lasts. Its arguments: the library of a
// simulated device, and what controls it.
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';

const [library, control] = process.argv.slice(2);
const { call } = createRequire(import.meta.url)(control);
const until = async (condition) => {
  while (!condition()) await new Promise(setImmediate);
};
call(library, 'reset', 'siw');
call(library, 'set', 'connect_blocks_us', 3_600_000_000);
const workerData = { what: 'connecting', library, host: '127.0.0.1', port: 1, count: 1 };
const worker = new Worker(new URL('leaver.mjs', import.meta.url), { workerData });
await until(() => call(library, 'calls', 'rdma_connect') === 1);
await worker.terminate();
call(library, 'set', 'connect_blocks_us', 0);
await until(() => call(library, 'live', 'cm-channel') === 0);
console.log('ended');
