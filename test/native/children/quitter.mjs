// Tries to connect, has nothing else, and says what came of it after `timeoutMs`: the kernel never answers. Its arguments are the
// library of a simulated device, and what controls it.
import { createRequire } from 'node:module';
import { RdmaTransport } from '@verbmq/native';

const [library, control] = process.argv.slice(2);
const addressResolved = 0;
createRequire(import.meta.url)(control).call(library, 'drop_cm_events', addressResolved, 1);
const transport = new RdmaTransport({ libraries: { ibverbs: library, rdmacm: library } });
await transport
  .connect({ host: '127.0.0.1', port: 1 }, { timeoutMs: 50 })
  .catch(({ code }) => console.log(code));
