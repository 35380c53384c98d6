// Terminates worker threads that are within calls of the addon at all times, each somewhere else in one, and says how many it has
// outlived. Its arguments: the library of a simulated device, and how many.
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { RdmaTransport } from '@verbmq/native';

if (isMainThread) {
  const [library, count] = process.argv.slice(2);
  for (let n = 0; n < Number(count); n++) {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: library });
    await once(worker, 'message');
    await worker.terminate();
  }
  console.log(`outlived ${count}`);
} else {
  const transport = new RdmaTransport({ libraries: { ibverbs: workerData, rdmacm: workerData } });
  await transport.listen({ host: '127.0.0.1', port: 0 });
  parentPort.postMessage('busy');
  for (;;) transport.stats();
}
