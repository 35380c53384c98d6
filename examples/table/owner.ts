/** Owns the table of prices. Whoever connects may read it, and may also ask the owner to be out for a while. */
import { type Connection, listen } from 'verbmq';
import { Table } from './table.js';

const prices = new Table();
prices.set('tea', '3.20');
prices.set('coffee', '4.50');

const listener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000');
console.log(`listening on ${listener.url}`);
process.once('SIGTERM', () => listener.close()); // who is connected is served until it leaves

for await (const connection of listener) {
  serve(connection).catch((error: Error) => console.error(error.message));
}

async function serve(connection: Connection): Promise<void> {
  // The same memory for everybody; what is set later, all of them see.
  const { descriptor } = await connection.expose(prices.memory, { read: true });
  await connection.send(Buffer.from(descriptor));
  for await (const message of connection) {
    const milliseconds = Number(Buffer.from(message.data));
    await connection.send(Buffer.from('out'));
    await connection.drain();
    block(milliseconds);
    prices.set('tea', '3.40');
    await connection.send(Buffer.from('back'));
  }
}

/** Nothing of this process runs in the meantime: a long computation, a pause of the garbage collector, a debugger. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}
