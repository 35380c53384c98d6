import type { Connection } from '@verbmq/core';
import { type Job, QueueBroker, type QueueBrokerOptions } from '@verbmq/core/queue';
import { type RpcServer, type ServeOptions, serve } from '@verbmq/core/rpc';
import { abortAfterTest, listenForTest, transportForTest } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

export interface Brokered {
  readonly broker: QueueBroker;
  readonly server: RpcServer;
  connect(): Promise<Connection>;
}

export async function brokered(
  setUp: SetUp,
  options?: QueueBrokerOptions,
  served?: ServeOptions,
): Promise<Brokered> {
  const broker = new QueueBroker(options);
  const listener = await listenForTest(setUp);
  const server = serve(listener, broker.service, served);
  const transport = transportForTest(setUp);
  return { broker, server, connect: async () => abortAfterTest(await transport.connect(listener.url)) };
}

/** Takes `count` jobs, acknowledges them, and answers with their bodies. */
export async function take<Body>(jobs: AsyncIterable<Job<Body>>, count: number): Promise<Body[]> {
  const bodies: Body[] = [];
  for await (const job of jobs) {
    bodies.push(job.body);
    job.acknowledge();
    if (bodies.length === count) break;
  }
  return bodies;
}
