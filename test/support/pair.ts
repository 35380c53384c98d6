import type { Connection, ConnectionOptions, ConnectOptions, Listener, Transport } from '@verbmq/core';
import { onTestFinished } from 'vitest';
import type { SetUp } from './set-up.js';

export interface PairOptions {
  /** For both sides. */
  readonly both?: ConnectionOptions;
  readonly client?: ConnectionOptions;
  readonly server?: ConnectionOptions;
  readonly connect?: ConnectOptions;
}

export interface Pair {
  readonly client: Connection;
  readonly server: Connection;
  readonly listener: Listener;
  readonly clientTransport: Transport;
  readonly serverTransport: Transport;
}

/** A transport that is closed, with all that is open on it ended, when the test is over. */
export function transportForTest(setUp: SetUp, options: ConnectionOptions = {}): Transport {
  const transport = setUp.createTransport(options);
  onTestFinished(() => transport.close());
  return transport;
}

/** Aborts a connection when the test is over, so that a test that failed half way does not wait for a close. */
export function abortAfterTest(connection: Connection): Connection {
  onTestFinished(async () => {
    connection.abort('the test is over');
    await connection.closed;
  });
  return connection;
}

export async function listenForTest(setUp: SetUp, options: ConnectionOptions = {}): Promise<Listener> {
  return transportForTest(setUp, options).listen(setUp.listenAddress());
}

/** Two transports of the kind under test, connected once. */
export async function connectPair(setUp: SetUp, options: PairOptions = {}): Promise<Pair> {
  const serverTransport = transportForTest(setUp, { ...options.both, ...options.server });
  const clientTransport = transportForTest(setUp, { ...options.both, ...options.client });
  const listener = await serverTransport.listen(setUp.listenAddress());
  const accepted = nextConnection(listener);
  const client = abortAfterTest(await clientTransport.connect(listener.url, options.connect));
  const server = abortAfterTest(await accepted);
  return { client, server, listener, clientTransport, serverTransport };
}

/**
 * Connects again and again to one listener, for a test that makes very many connections and ends them itself: nothing is
 * remembered of any.
 */
export function repeatedPair(setUp: SetUp): () => Promise<Pick<Pair, 'client' | 'server'>> {
  let opened: Promise<{ listener: Listener; transport: Transport }> | undefined;
  return async () => {
    opened ??= listenForTest(setUp).then((listener) => ({ listener, transport: transportForTest(setUp) }));
    const { listener, transport } = await opened;
    const accepted = nextConnection(listener);
    return { client: await transport.connect(listener.url), server: await accepted };
  };
}

/** The next connection that a listener accepts. */
export function nextConnection(listener: Listener): Promise<Connection> {
  return new Promise((resolve) => {
    const detach = listener.onConnection((connection) => {
      queueMicrotask(() => detach()); // this may be called before onConnection has returned
      resolve(connection);
    });
  });
}
