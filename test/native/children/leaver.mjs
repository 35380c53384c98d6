// Ends, as its last argument (or what it is told later) says, while calls of the driver last that it has begun, in a process or a worker:
//
//   connecting  it connects to a port, `count` times
//   probing     it probes, `count` times
//   closing     it has `count` connections to a port, says `connected`, and aborts them when it is told to
//   serving     the same, but it has accepted them, with shared receive slots, on the port that it tells
//
// and then, told `exit`, calls process.exit(0); told `give up`, gives up its attempts or its probes, and has nothing else to live for.
// Its worker data: what it does, the library of a simulated device, if that is to be used, the host, the port, and `count`.
import { parentPort, workerData } from 'node:worker_threads';
import { RdmaTransport } from '@verbmq/native';

const { what, library, host, port, count } = workerData;
const transport = new RdmaTransport({
  ...(library !== undefined && { libraries: { ibverbs: library, rdmacm: library } }),
  ...(what === 'serving' && { sharedReceiveQueue: { slots: 8 * count, maxConnections: count } }),
});
const attempts = [];
function connect() {
  const attempt = new AbortController();
  attempts.push(attempt);
  return transport.connect({ host, port }, { signal: attempt.signal, timeoutMs: 3_600_000 });
}
const nothing = () => {};
const open = [];

parentPort.on('message', (told) => {
  if (told === 'exit') process.exit(0);
  if (told === 'abort') for (const connection of open) connection.abort('enough');
  if (told !== 'give up') return;
  for (const attempt of attempts) attempt.abort();
  if (what === 'probing') void transport.close();
  parentPort.close();
});

if (what === 'connecting') {
  for (let n = 0; n < count; n++) connect().catch(nothing);
} else if (what === 'probing') {
  for (let n = 0; n < count; n++) void transport.probe();
} else if (what === 'closing') {
  for (let n = 0; n < count; n++) open.push(await connect());
  parentPort.postMessage('connected');
} else {
  const listener = await transport.listen({ host, port: 0 });
  listener.onConnection((connection) => {
    open.push(connection);
    connection.onMessage(nothing);
    if (open.length === count) parentPort.postMessage('connected');
  });
  parentPort.postMessage(listener.address.port);
}
