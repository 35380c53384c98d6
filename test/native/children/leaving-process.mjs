// A process that ends while its attempt to connect is within a call of the driver that lasts an hour. Its arguments: the library of a
// simulated device, what controls it, and how it ends: `exit`, by process.exit(), or `give up`, by itself.
import { createRequire } from 'node:module';
import { RdmaTransport } from '@verbmq/native';

const [library, control, how] = process.argv.slice(2);
const { call } = createRequire(import.meta.url)(control);
call(library, 'reset', 'siw');
const transport = new RdmaTransport({ libraries: { ibverbs: library, rdmacm: library } });
const listener = await transport.listen('rdma://127.0.0.1:0');
call(library, 'set', 'connect_blocks_us', 3_600_000_000);
const given = new AbortController();
const connecting = transport.connect(listener.url, { signal: given.signal });
connecting.catch(({ code }) => console.log(code));
while (call(library, 'calls', 'rdma_connect') < 1) await new Promise(setImmediate);
if (how === 'exit') process.exit(0);
given.abort();
await transport.close();
