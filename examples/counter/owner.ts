/** Owns a counter that others count up by themselves: it takes no part in it, and looks only when it ends. */
import { type Connection, listen } from 'verbmq';

const counter = new BigUint64Array(1);

const listener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000');
console.log(`listening on ${listener.url}`);
process.once('SIGTERM', async () => {
  await listener.close();
  console.log(`counted to ${counter[0]}`);
});

for await (const connection of listener) {
  share(connection).catch((error: Error) => console.error(error.message));
}

async function share(connection: Connection): Promise<void> {
  const { descriptor } = await connection.expose(new Uint8Array(counter.buffer), { atomic: true });
  await connection.send(Buffer.from(descriptor));
}
