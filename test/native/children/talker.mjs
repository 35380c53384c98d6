// Two ends of RDMA in one process or worker, in the middle of traffic that never ends: messages, and reads of exposed memory, each
// of which registers what it reads into. Says `talking` when both flow, then does what its first argument (or its worker data) asks:
//
//   forever     goes on until it is killed or terminated
//   exit        calls process.exit(0) with everything open
//   abort       aborts its connections, and calls process.exit(0) before that is done
//   close       closes everything in order; the process must then end by itself
//   throw       throws where nobody catches it
//   until-lost  says how each connection was lost, and closes the rest
//
// Further arguments: where to listen, and the library of a simulated device, if that is to be used.
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { RdmaTransport } from '@verbmq/native';

const [ending, host, library] = isMainThread ? process.argv.slice(2) : workerData;
const transport = new RdmaTransport(
  library === undefined ? {} : { libraries: { ibverbs: library, rdmacm: library } },
);
const listener = await transport.listen({ host, port: 0 });
listener.onConnection(async (connection) => {
  connection.onMessage((message) => {
    connection.send(message.data).catch(() => {});
  });
  const { descriptor } = await connection.expose(500_000, { read: true });
  connection.send(Buffer.from(descriptor)).catch(() => {});
});
const connections = await Promise.all([transport.connect(listener.url), transport.connect(listener.url)]);
let received = 0;
let reads = 0;
let said = false;
for (const connection of connections) {
  connection.onMessage((message) => {
    received++;
    if (message.data.byteLength !== 100) readForEver(connection, Buffer.from(message.data).toString());
    else connection.send(message.data).catch(() => {});
  });
  for (let n = 0; n < 16; n++) await connection.send(new Uint8Array(100));
}

function readForEver(connection, descriptor) {
  const remote = connection.attach(descriptor);
  const next = async () => {
    for (;;) {
      await remote.read(0, 500_000);
      if (++reads < 8 || received < 50 || said) continue;
      said = true;
      process.nextTick(talking);
    }
  };
  for (let n = 0; n < 4; n++) next().catch(() => {}); // the end of the connection tells why
}

function talking() {
  if (isMainThread) console.log('talking');
  else parentPort.postMessage('talking');
  if (ending === 'abort') for (const connection of connections) connection.abort('enough');
  if (ending === 'exit' || ending === 'abort') process.exit(0);
  if (ending === 'close') void transport.close();
  if (ending === 'throw') throw new Error('thrown on purpose');
  if (ending === 'until-lost') void reportLosses();
}

async function reportLosses() {
  for (const connection of connections) parentPort.postMessage((await connection.closed).error.code);
  await transport.close();
}
