import type { Connection } from '@verbmq/core';
import { QueueBroker, type QueueBrokerOptions, type queue } from '@verbmq/core/queue';
import { client, type RpcServer, serve } from '@verbmq/core/rpc';
import { connectPair, type Pair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

export interface Attacked {
  readonly broker: QueueBroker;
  readonly server: RpcServer;
  readonly raw: Connection;
  readonly far: Connection;
}

/** A broker, and a connection to it on which anything can be said. */
export async function attackedBy(
  connect: () => Promise<Pick<Pair, 'client' | 'server'>>,
  options?: QueueBrokerOptions,
): Promise<Attacked> {
  const broker = new QueueBroker(options);
  const { client: raw, server: far } = await connect();
  const server = serve(far, broker.service);
  return { broker, server, raw, far };
}

/** The same queues from a connection of somebody who behaves. */
export async function honest(setUp: SetUp, broker: QueueBroker): Promise<Connection> {
  const { client: near, server: far } = await connectPair(setUp);
  serve(far, broker.service);
  return near;
}

/** What anybody can call, with anything. */
export type Anything = Record<
  'queue:push' | 'queue:work',
  ((body: unknown) => Promise<unknown>) & {
    stream(body: unknown, options: { metadata: Record<string, string> }): AsyncIterableIterator<unknown>;
  }
>;
export const anything = (connection: Connection): Anything => client(connection) as unknown as Anything;

/** A consumer that never says a word. */
export async function* silence(): AsyncGenerator<never> {
  await new Promise(() => {});
}

/** The first piece of work, acknowledged. With a broker, it is pushed before. */
export async function first(jobs: ReturnType<typeof queue<unknown>>, broker?: QueueBroker): Promise<unknown> {
  if (broker !== undefined) await broker.push(jobs.name, 'here');
  for await (const job of jobs.consume()) {
    job.acknowledge();
    return job.body;
  }
  throw new Error('the queue ended');
}
