import { pubsub } from '@verbmq/core/pubsub';
import { expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { json } from '../support/json-codec.js';
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
}
