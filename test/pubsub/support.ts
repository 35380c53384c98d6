import type { Connection } from '@verbmq/core';
import {
  PubsubBroker,
  type PubsubBrokerOptions,
  type PubsubEvent,
  type Subscription,
} from '@verbmq/core/pubsub';
import { type RpcServer, type ServeOptions, serve } from '@verbmq/core/rpc';
import { abortAfterTest, listenForTest, transportForTest } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

export interface Brokered {
  readonly broker: PubsubBroker;
  readonly server: RpcServer;
  connect(): Promise<Connection>;
}

export async function brokered(
  setUp: SetUp,
  options?: PubsubBrokerOptions,
  served?: ServeOptions,
): Promise<Brokered> {
  const broker = new PubsubBroker(options);
  const listener = await listenForTest(setUp);
  const server = serve(listener, broker.service, served);
  const transport = transportForTest(setUp);
  return { broker, server, connect: async () => abortAfterTest(await transport.connect(listener.url)) };
}

export async function take<Body>(events: Subscription<Body>, count: number): Promise<PubsubEvent<Body>[]> {
  const taken: PubsubEvent<Body>[] = [];
  while (taken.length < count) {
    const { done, value } = await events.next();
    if (done) throw new Error(`the subscription ended after ${taken.length} of ${count} events`);
    taken.push(value);
  }
  return taken;
}
