import { type Connection, listen } from 'verbmq';

// verbmq:// begins on TCP and moves to RDMA where both sides have it. The service has nothing to do for that.
const listener = await listen(process.env.VERBMQ_URL ?? 'verbmq://127.0.0.1:7000');
console.log(`listening on ${listener.url}`);
process.once('SIGTERM', () => listener.close()); // who is connected is served until it leaves

for await (const connection of listener) {
  echo(connection).catch((error: Error) => console.error(error.message));
}

async function echo(connection: Connection): Promise<void> {
  for await (const message of connection) await connection.send(message.data);
}
