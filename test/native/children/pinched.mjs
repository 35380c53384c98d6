// Connects while the kernel lets it pin less than a connection needs, on one side and then on the other, and once when that is over.
// Says what became of it. Its arguments are the library of a simulated device, what controls it, and what device it is.
import { createRequire } from 'node:module';
import { RdmaTransport } from '@verbmq/native';

const [library, control, personality] = process.argv.slice(2);
const { call } = createRequire(import.meta.url)(control);
const device = (name, ...values) => call(library, name, ...values);
const limitPinned = (bytes) => device('set', 'memlock_bytes', bytes);

const refusals = [];
const logger = {
  child: () => logger,
  trace: () => {},
  debug: () => {},
  info: () => {},
  warn: ({ err }) => refusals.push({ code: err.code, message: err.message }),
  error: () => {},
};
/** What a connection pins, but for its completion queues: see docs/memory.md. */
const slabBytes = 200 * 4096 + 4096;

device('reset', personality);
const options = { libraries: { ibverbs: library, rdmacm: library } };
const server = new RdmaTransport({ ...options, logger });
const client = new RdmaTransport(options);
const listener = await server.listen('rdma://127.0.0.1:0');
listener.onConnection((connection) => {
  connection.onMessage(({ data }) => void connection.send(data));
});
const connect = () =>
  client.connect(listener.url).then(
    async (connection) => {
      await connection.send(Uint8Array.of(1, 2, 3));
      const { value } = await connection.messages().next();
      const text = [...value.data].join(' ');
      await connection.close();
      return { text };
    },
    ({ code, message }) => ({ code, message }),
  );

limitPinned(slabBytes / 2);
const connecting = await connect();
limitPinned(slabBytes * 1.5);
const accepting = await connect();
const { accepted, failed } = listener.stats();
limitPinned(-1);
const later = await connect();
await Promise.all([client.close(), server.close()]);
const left = ['qp', 'mr', 'pd', 'cq', 'cm-id', 'pinned-bytes'].filter((kind) => device('live', kind) !== 0);
process.stdout.write(JSON.stringify({ connecting, accepting, refusals, accepted, failed, later, left }));
