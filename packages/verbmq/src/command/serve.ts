import { type Connection, type Listener, VerbmqError } from '@verbmq/core';
import { listen } from '../transports.js';

/** Serves echoes on every URL until SIGINT or SIGTERM; then closes in order. */
export async function serve(urls: string[]): Promise<number> {
  const listeners: Listener[] = [];
  const connections = new Set<Connection>();
  try {
    for (const url of urls) listeners.push(await listen(url));
    for (const listener of listeners) {
      listener.onConnection((connection) => {
        connections.add(connection);
        void connection.closed.then(() => connections.delete(connection));
        echo(connection);
      });
      process.stdout.write(`listening on ${listener.url}\n`);
    }
    await interrupted();
    return 0;
  } finally {
    await Promise.all(listeners.map((listener) => listener.close()));
    await Promise.all([...connections].map((connection) => connection.close()));
  }
}

function echo(connection: Connection): void {
  process.stdout.write(`connection ${connection.id} over ${connection.kind}\n`);
  void connection.closed.then(({ error }) => {
    process.stdout.write(
      `connection ${connection.id} ended${error === undefined ? '' : `: ${error.message}`}\n`,
    );
  });
  connection.onMessage((message) => {
    if (connection.state !== 'open' || connection.trySend(message.data)) return;
    // The peer does not read its answers. It is held back until it does.
    message.retain();
    connection.pause();
    connection
      .send(message.data)
      .catch((error: unknown) => {
        // The connection has ended, which `closed` reports above.
        if (!(error instanceof VerbmqError)) throw error;
      })
      .finally(() => {
        message.release();
        connection.resume();
      });
  });
}

function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
}
