import { pubsub } from '@verbmq/core/pubsub';
import { expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { json } from '../support/json-codec.js';
import { MeddlingCodec } from '../support/meddling-codec.js';
import type { SetUp } from '../support/set-up.js';
import { brokered, take } from './support.js';

export function codecs(setUp: SetUp): void {
  test('a codec of another kind, from all who publish to all who have subscribed', async () => {
    const { broker, connect } = await brokered(setUp, { codec: json }, { codec: json });
    const [one, other] = [pubsub(await connect(), { codec: json }), pubsub(await connect(), { codec: json })];
    const events = [one.subscribe('#'), other.subscribe('a.*')];
    for (const { ready } of events) await ready;
    const body = { list: [1, 'ü', null], long: 'x'.repeat(100_000) };
    expect(await one.publish('a.b', body, { headers: { a: 'b' } })).toBe(2);
    expect(broker.publish('a.c', body)).toBe(2);
    for (const each of events) {
      expect(await take(each, 2)).toEqual([
        { topic: 'a.b', body, headers: { a: 'b' }, dropped: 0 },
        { topic: 'a.c', body, headers: {}, dropped: 0 },
      ]);
    }
  });

  test('codecs that differ are an error, of the client and the server, or of the broker and its server', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const topic = pubsub(connection, { codec: json });
    const failures = [topic.publish('a', 1), topic.subscribe('a').ready, topic.subscribe('a').next()];
    for (const failure of failures)
      expect(await verbmqErrorOf(failure)).toMatchObject({ code: 'ERR_VERBMQ_DECODE', reason: 'codec' });
    expect(broker.stats()).toMatchObject({ published: 0, subscriptions: 0 });

    const other = await brokered(setUp, { codec: json });
    const events = pubsub(await other.connect()).subscribe('a');
    expect(await verbmqErrorOf(events.ready)).toMatchObject({ code: 'ERR_VERBMQ_DECODE', reason: 'codec' });
    expect(await verbmqErrorOf(events.next())).toMatchObject({ reason: 'codec' });
    await until(() => other.broker.stats().subscriptions === 0);
  });

  test('a codec that publishes, subscribes and lets subscribers go while it encodes and decodes', async () => {
    const codec = new MeddlingCodec();
    const { broker, connect } = await brokered(setUp, { codec }, { codec: json });
    const near = new MeddlingCodec();
    const topic = pubsub(await connect(), { codec: near });
    const events = topic.subscribe('#');
    const leaving = topic.subscribe('#');
    await Promise.all([events.ready, leaving.ready]);
    const later: Promise<unknown>[] = [];
    codec.meddle = () => {
      broker.publish('inner', 'from the broker');
      later.push(topic.publish('inner', 'from a client'), topic.subscribe('none').ready);
    };
    near.meddle = () => later.push(leaving.return());
    const body = { meddle: 'encode', text: 'ü'.repeat(100) };
    expect(broker.publish('outer', body)).toBe(2);
    await topic.publish('outer', { meddle: 'decode' });
    const taken = (await take(events, 4)).map(({ topic: of, body: what }) => [of, what]);
    await Promise.all(later);
    expect(taken).toEqual([
      ['inner', 'from the broker'],
      ['outer', body],
      ['inner', 'from a client'],
      ['outer', { meddle: 'decode' }],
    ]);
    await until(() => broker.stats().subscriptions === 2); // of which one is for nothing
    expect(broker.publish('last', 1)).toBe(1);
    expect((await take(events, 1))[0]?.topic).toBe('last');
    codec.meddle = () => broker.releaseSubscribers();
    expect(broker.publish('last', body)).toBe(0);
    expect((await verbmqErrorOf(events.next())).reason).toBe('released');
  });
}
