import { AsyncLocalStorage } from 'node:async_hooks';
import { pubsub, pubsubChannels } from '@verbmq/core/pubsub';
import { client } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { errorOf } from '../rpc/support.js';
import type { SetUp } from '../support/set-up.js';
import { hearTracing } from '../support/tracing.js';
import { brokered, take } from './support.js';

export function tracing(setUp: SetUp): void {
  test('headers of what is published reach all who get it', async () => {
    const { broker, connect } = await brokered(setUp);
    const topic = pubsub(await connect());
    const all = [topic.subscribe('a'), pubsub(await connect()).subscribe('#')];
    for (const { ready } of all) await ready;
    await topic.publish('a', 1, { headers: { traceparent: 'ü' }, metadata: { token: 'secret' } });
    broker.publish('a', 2, { headers: { x: 'y' } });
    await topic.publish('a', 3);
    for (const events of all) {
      const seen = (await take(events, 3)).map(({ body, headers }) => [body, { ...headers }]);
      expect(seen).toEqual([
        [1, { traceparent: 'ü' }],
        [2, { x: 'y' }],
        [3, {}],
      ]);
    }
  });

  test('headers that are none, or too many, fail what is published', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const topic = pubsub(connection);
    await topic.subscribe('#').ready;
    const raw = client<{ 'pubsub:publish': (publication: unknown) => Promise<unknown> }>(connection);
    for (const headers of [null, 5, { a: 1 }, { a: 'x'.repeat(9000) }]) {
      const bad = headers as never;
      await expect(topic.publish('a', 1, { headers: bad })).rejects.toThrow(/header/);
      expect(() => broker.publish('a', 1, { headers: bad })).toThrow(/header/);
      await expect(raw['pubsub:publish']({ topic: 'a', body: 1, headers })).rejects.toThrow(/header/);
    }
    expect(broker.stats()).toMatchObject({ published: 0, delivered: 0 });
  });

  test('channels tell of what is published, and of events, and carry a context from one to the other', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const topic = pubsub(connection);
    const events = topic.subscribe<number>('a');
    await events.ready;
    const storage = new AsyncLocalStorage<string>();
    const heard: string[] = [];
    hearTracing(pubsubChannels.publish, (event, trace) => {
      if (event === 'start') trace.headers.traceparent = `of ${storage.getStore()}`;
      if (event !== 'asyncStart') heard.push(`publish ${event} ${trace.topic}`);
    });
    hearTracing(pubsubChannels.event, (event, trace) => {
      heard.push(`event ${event} ${trace.topic} ${trace.headers.traceparent}`);
      expect(trace.connection).toBe(connection);
    });
    await storage.run('a client', () => topic.publish('a', 1));
    await errorOf(topic.publish('*', 1));
    storage.run('the broker', () => broker.publish('a', 2));
    expect(heard.splice(0)).toEqual([
      'publish start a',
      'publish end a',
      'publish asyncEnd a',
      'publish start *',
      'publish end *',
      'publish error *',
      'publish asyncEnd *',
      'publish start a',
      'publish end a',
    ]);
    const traceparents = (await take(events, 2)).map(({ headers }) => headers.traceparent);
    expect(traceparents).toEqual(['of a client', 'of the broker']);
    expect(heard).toEqual([
      'event start a of a client',
      'event end a of a client',
      'event start a of the broker',
      'event end a of the broker',
    ]);
  });
}
