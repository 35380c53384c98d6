import { getEventListeners } from 'node:events';
import type { Connection } from '@verbmq/core';
import { pubsub, resubscribe } from '@verbmq/core/pubsub';
import { expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import type { SetUp } from '../support/set-up.js';
import { brokered } from './support.js';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

const CANCELLED = { code: 'ERR_VERBMQ_CANCELLED' };

export function signals(setUp: SetUp): void {
  test('subscribe: before, while it waits, and while events come', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const topic = pubsub(connection);
    const before = AbortSignal.abort();
    const late = topic.subscribe('a', { signal: before });
    expect(await verbmqErrorOf(late.ready)).toMatchObject(CANCELLED);
    expect(await verbmqErrorOf(late.next())).toMatchObject(CANCELLED);

    const waiting = new AbortController();
    const { signal } = waiting;
    const two = [topic.subscribe('a', { signal }), topic.subscribe('a', { signal })];
    for (const { ready } of two) await ready;
    const nexts = two.map((events) => verbmqErrorOf(events.next()));
    expect(listeners(signal)).toBe(1); // for however many
    waiting.abort('enough');
    for (const next of nexts) expect(await next).toMatchObject(CANCELLED);
    await until(() => broker.stats().subscriptions === 0);

    const given = new AbortController();
    const events = topic.subscribe<number>('a', { signal: given.signal });
    await events.ready;
    for (let n = 0; n < 5; n++) await topic.publish('a', n);
    expect((await events.next()).value?.body).toBe(0);
    await turns();
    given.abort();
    // What has arrived is not given any more.
    expect(await verbmqErrorOf(events.next())).toMatchObject(CANCELLED);
    expect(await events.next()).toEqual({ done: true, value: undefined });
    await until(() => broker.stats().subscriptions === 0);

    const left = new AbortController();
    const unread = topic.subscribe('a', { signal: left.signal });
    await unread.ready;
    await unread.return();
    for (const each of [before, signal, given.signal, left.signal]) expect(listeners(each)).toBe(0);
    expect(connection.state).toBe('open');
  });

  test('resubscribe: before, while it connects or waits, and while events come', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    let connects = 0;
    const there = async (): Promise<Connection> => {
      connects++;
      return connection;
    };
    const before = AbortSignal.abort('before');
    const late = resubscribe(there, 'a', { signal: before });
    expect(await verbmqErrorOf(late.next())).toMatchObject({ ...CANCELLED, cause: 'before' });
    expect(await late.next()).toEqual({ done: true, value: undefined });
    expect(connects).toBe(0);

    const controller = new AbortController();
    const { signal } = controller;
    let asked: AbortSignal | undefined;
    const connecting = resubscribe(
      (own) => {
        asked = own;
        return new Promise(() => {});
      },
      'a',
      { signal },
    );
    const waiting = resubscribe(there, 'a', { signal });
    const reading = resubscribe<number>(there, 'b', { signal });
    const nexts = [connecting, waiting].map((events) => verbmqErrorOf(events.next()));
    const first = reading.next();
    await until(() => broker.stats().subscriptions === 2 && asked !== undefined);
    expect(listeners(signal)).toBe(1); // for however many
    broker.publish('b', 1);
    broker.publish('b', 2);
    expect((await first).value?.body).toBe(1);
    await turns();
    controller.abort('enough');
    for (const next of nexts) expect(await next).toMatchObject(CANCELLED);
    expect(asked?.aborted).toBe(true);
    expect(await verbmqErrorOf(reading.next())).toMatchObject(CANCELLED);
    expect(await reading.next()).toEqual({ done: true, value: undefined });
    await until(() => broker.stats().subscriptions === 0);

    const left = new AbortController();
    const ended = resubscribe(there, 'a', { signal: left.signal });
    const wait = ended.next();
    await until(() => broker.stats().subscriptions === 1);
    await ended.return();
    expect(await wait).toEqual({ done: true, value: undefined });
    for (const each of [before, signal, left.signal]) expect(listeners(each)).toBe(0);
    expect(connection.state).toBe('open');
  });
}
