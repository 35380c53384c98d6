import type { Connection } from '@verbmq/core';
import { PubsubBroker, type PubsubBrokerOptions } from '@verbmq/core/pubsub';
import { client, type RpcServer, serve } from '@verbmq/core/rpc';
import type { Pair } from '../support/pair.js';

export interface Attacked {
  readonly broker: PubsubBroker;
  readonly server: RpcServer;
  readonly raw: Connection;
  readonly far: Connection;
}

/** A broker, and a connection to it on which anything can be said. */
export async function attackedBy(
  connect: () => Promise<Pick<Pair, 'client' | 'server'>>,
  options?: PubsubBrokerOptions,
): Promise<Attacked> {
  const broker = new PubsubBroker(options);
  const { client: raw, server: far } = await connect();
  const server = serve(far, broker.service);
  return { broker, server, raw, far };
}

/** What anybody can call, with anything. */
export type Anything = Record<
  'pubsub:publish' | 'pubsub:subscribe',
  ((body: unknown) => Promise<unknown>) & {
    stream(body: unknown, options: { metadata: Record<string, string> }): AsyncIterableIterator<unknown>;
  }
>;
export const anything = (connection: Connection): Anything => client(connection) as unknown as Anything;
