// A process that has the addon in a worker thread alone, which it terminates while a call of the driver lasts. Its arguments: the library of a
// simulated device, what controls it, and what the worker does (see leaver.mjs): `connecting` or `probing`.
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';

const [library, control, what] = process.argv.slice(2);
const { call } = createRequire(import.meta.url)(control);
const until = async (condition) => {
  while (!condition()) await new Promise(setImmediate);
};
const [blocked, setting] =
  what === 'probing' ? ['ibv_open_device', 'open_blocks_us'] : ['rdma_connect', 'connect_blocks_us'];
call(library, 'reset', 'siw');
call(library, 'set', setting, 3_600_000_000);
const workerData = { what, library, host: '127.0.0.1', port: 1, count: 1 };
const worker = new Worker(new URL('leaver.mjs', import.meta.url), { workerData });
await until(() => call(library, 'calls', blocked) === 1);
await worker.terminate();
call(library, 'set', setting, 0);
await until(() => call(library, 'calls', 'rdma_create_event_channel') === 1);
await until(() => call(library, 'live', 'cm-channel') === 0);
console.log('ended');
