import { type Connection, listen } from 'verbmq';

// The URL chooses the transport: tcp://, unix:// or rdma://. Nothing else changes.
const listener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000');
console.log(`listening on ${listener.url}`);
process.once('SIGTERM', () => listener.close()); // who is connected is served until it leaves

for await (const connection of listener) {
  echo(connection).catch((error: Error) => console.error(error.message));
}

async function echo(connection: Connection): Promise<void> {
  for await (const message of connection) await connection.send(message.data);
}
