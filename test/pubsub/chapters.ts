import { pubsub, resubscribe } from '@verbmq/core/pubsub';
import { client } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import type { SetUp } from '../support/set-up.js';
import { codecs } from './codecs.js';
import { resubscribing } from './resubscribing.js';
import { signals } from './signals.js';
import { brokered, take } from './support.js';
import { tracing } from './tracing.js';

export function topics(name: string, setUp: SetUp): void {
  describe(`publish and subscribe over ${name}`, () => {
    describe('headers and tracing', () => tracing(setUp));
    describe('codecs', () => codecs(setUp));
    describe('signals', () => signals(setUp));
    describe('subscribing again', () => resubscribing(setUp));

    test('events reach those who have subscribed to their topic, in order', async () => {
      const { broker, connect } = await brokered(setUp);
      const [one, other] = [pubsub(await connect()), pubsub(await connect())];
      const orders = one.subscribe<number>('orders.*');
      const all = other.subscribe<number>('#');
      const paid = other.subscribe<number>('orders.paid');
      await Promise.all([orders.ready, all.ready, paid.ready]);
      expect(broker.stats().subscriptions).toBe(3);
      expect(await one.publish('orders.created', 1)).toBe(2);
      expect(await one.publish('orders.paid', 2)).toBe(3);
      expect(await other.publish('news', 3)).toBe(1);
      expect(broker.publish('orders.created', 4)).toBe(2);
      expect(await take(orders, 3)).toEqual([
        { topic: 'orders.created', body: 1, headers: {}, dropped: 0 },
        { topic: 'orders.paid', body: 2, headers: {}, dropped: 0 },
        { topic: 'orders.created', body: 4, headers: {}, dropped: 0 },
      ]);
      expect((await take(all, 4)).map(({ body }) => body)).toEqual([1, 2, 3, 4]);
      expect((await take(paid, 1)).map(({ body }) => body)).toEqual([2]);
      expect(broker.stats()).toMatchObject({ published: 4, delivered: 8, dropped: 0 });
    });

    test('bodies of any kind, each in memory of its own', async () => {
      const { connect } = await brokered(setUp);
      const topic = pubsub(await connect());
      const first = topic.subscribe<Record<string, unknown>>('a');
      const second = topic.subscribe<Record<string, unknown>>('a');
      await Promise.all([first.ready, second.ready]);
      await topic.publish('a', {
        list: [1, 'ü'],
        bytes: new Uint8Array(200_000).fill(5),
        nothing: undefined,
      });
      const [event] = await take(first, 1);
      (event!.body.bytes as Uint8Array).fill(0);
      const [same] = await take(second, 1);
      expect(same?.body.list).toEqual([1, 'ü']);
      expect((same!.body.bytes as Uint8Array).every((byte) => byte === 5)).toBe(true);
    });

    test('nobody is told of what was before, or after, the subscription', async () => {
      const { broker, connect } = await brokered(setUp);
      const topic = pubsub(await connect());
      expect(await topic.publish('a', 1)).toBe(0);
      const events = topic.subscribe<number>('a');
      await topic.publish('a', 2); // behind the subscription, on the same connection
      for await (const event of events) {
        expect(event.body).toBe(2);
        break;
      }
      await until(() => broker.stats().subscriptions === 0);
      expect(await topic.publish('a', 3)).toBe(0);
      expect(await events.next()).toEqual({ done: true, value: undefined });
    });

    test.each(['drop-oldest', 'drop-newest'] as const)(
      'a subscriber that does not read loses what was chosen, is told how much, and holds up nobody: %s',
      async (whenSlow) => {
        const { broker, connect } = await brokered(setUp);
        const body = new Uint8Array(10_000);
        const slow = pubsub(await connect()).subscribe<{ n: number }>('a', { maxQueued: 10, whenSlow });
        const quick = pubsub(await connect()).subscribe<{ n: number }>('a');
        await Promise.all([slow.ready, quick.ready]);
        let published = 0;
        const publish = async (): Promise<boolean> => {
          const { dropped } = broker.stats();
          broker.publish('a', { n: ++published, body });
          expect((await quick.next()).value).toMatchObject({ dropped: 0, body: { n: published } });
          return broker.stats().dropped > dropped;
        };
        // Until nothing more leaves for the slow one, and what waits for it is what was chosen.
        for (let inARow = 0; inARow < 30; ) inARow = (await publish()) ? inARow + 1 : 0;
        const taken = await take(slow, broker.stats().delivered - published);
        const numbers = taken.map((event) => event.body.n);
        expect(numbers).toEqual([...numbers].sort((x, y) => x - y));
        if (whenSlow === 'drop-oldest') {
          expect(numbers.slice(-10)).toEqual(Array.from({ length: 10 }, (_, i) => published - 9 + i));
        } else {
          expect(numbers.at(-1)).toBeLessThanOrEqual(published - 30);
        }
        await publish(); // what was left out is told of with the event after it
        taken.push(...(await take(slow, 1)));
        const left = taken.reduce((sum, { dropped }) => sum + dropped, 0);
        expect(left).toBeGreaterThanOrEqual(30);
        expect(taken.length + left).toBe(published);
        expect(broker.stats().dropped).toBe(left);
      },
    );

    test('a slow subscriber can choose to be disconnected', async () => {
      const { broker, connect } = await brokered(setUp);
      const events = pubsub(await connect()).subscribe('a', { maxQueued: 5, whenSlow: 'disconnect' });
      await events.ready;
      while (broker.stats().subscriptions > 0) {
        broker.publish('a', new Uint8Array(10_000));
        await new Promise((resolve) => setImmediate(resolve));
      }
      const read = (async () => {
        for await (const _ of events);
      })();
      expect(await verbmqErrorOf(read)).toMatchObject({
        code: 'ERR_VERBMQ_OVERLOADED',
        reason: 'subscriber',
      });
    });

    test('a lost connection ends its subscriptions on both sides', async () => {
      const { broker, connect } = await brokered(setUp);
      const connection = await connect();
      const events = pubsub(connection).subscribe('#');
      await events.ready;
      const read = verbmqErrorOf(take(events, 1));
      connection.abort('the test ends it');
      expect((await read).code).toBe('ERR_VERBMQ_ABORTED');
      await until(() => broker.stats().subscriptions === 0);
      expect(broker.publish('a', 1)).toBe(0);
    });

    test('a subscription that is disposed of has ended, though it waits for an event', async () => {
      const { broker, connect } = await brokered(setUp);
      const topic = pubsub(await connect());
      let waiting: Promise<unknown>;
      {
        await using events = topic.subscribe<number>('a');
        await topic.publish('a', 1);
        expect((await events.next()).value?.body).toBe(1);
        waiting = events.next();
      }
      expect(await waiting).toEqual({ done: true, value: undefined });
      await until(() => broker.stats().subscriptions === 0);
    });

    test('a signal ends a subscription, and what subscribes again', async () => {
      const { broker, connect } = await brokered(setUp);
      const connection = await connect();
      const controller = new AbortController();
      const { signal } = controller;
      const events = pubsub(connection).subscribe('a', { signal });
      await events.ready;
      let connections = 0;
      const again = resubscribe(
        async () => {
          connections++;
          return connection;
        },
        'a',
        { signal },
      );
      const waiting = [events.next(), again.next()].map((next) => verbmqErrorOf(next));
      await until(() => broker.stats().subscriptions === 2);
      controller.abort('enough');
      for (const error of await Promise.all(waiting))
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
      await until(() => broker.stats().subscriptions === 0);
      expect((await verbmqErrorOf(pubsub(connection).subscribe('a', { signal }).ready)).code).toBe(
        'ERR_VERBMQ_CANCELLED',
      );
      expect(connections).toBe(1);
    });

    test('a server drains when its subscribers are released', async () => {
      const { broker, server, connect } = await brokered(setUp);
      const topics = pubsub(await connect());
      const [events, left] = [topics.subscribe('#'), topics.subscribe('#')];
      await Promise.all([events.ready, left.ready]);
      const reading = verbmqErrorOf(events.next());
      const leaving = left.next();
      const drained = server.drain();
      const leftNow = left.return();
      broker.releaseSubscribers();
      await drained;
      expect(await reading).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', reason: 'released' });
      for (const next of [leaving, leftNow, events.next(), left.next()])
        expect(await next).toEqual({ done: true, value: undefined });
    });

    test('nonsense is refused, and subscriptions have a limit', async () => {
      const { broker, connect } = await brokered(setUp, { maxSubscriptions: 1 });
      const connection = await connect();
      const topic = pubsub(connection);
      for (const bad of ['', 'a.*', '#', 'x'.repeat(300)])
        await expect(topic.publish(bad, 1)).rejects.toThrow(/topic/);
      expect(() => topic.subscribe('')).toThrow(/pattern/);
      const raw = client<Record<string, (body?: unknown) => Promise<unknown>>>(connection);
      for (const body of [null, 5, {}, { topic: '' }, { topic: 'a.*' }])
        await expect(raw['pubsub:publish']?.(body)).rejects.toThrow(/topic/);
      const subscribe = (metadata: Record<string, string>) =>
        (raw['pubsub:subscribe'] as unknown as { stream(...args: unknown[]): AsyncIterator<unknown> })
          .stream(undefined, { metadata })
          .next();
      await expect(subscribe({ pattern: '', maxQueued: '1', whenSlow: 'drop-oldest' })).rejects.toThrow(
        /pattern/,
      );
      await expect(subscribe({ pattern: 'a', maxQueued: '1', whenSlow: 'never' })).rejects.toThrow(
        /whenSlow/,
      );
      await expect(subscribe({ pattern: 'a', maxQueued: '-1', whenSlow: 'drop-oldest' })).rejects.toThrow(
        /maxQueued/,
      );
      expect(broker.stats().subscriptions).toBe(0);
      await topic.subscribe('a').ready;
      expect(await verbmqErrorOf(topic.subscribe('b').ready)).toMatchObject({ reason: 'subscriber' });
    });
  });
}
