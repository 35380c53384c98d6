import { QueueBroker, queue } from '@verbmq/core/queue';
import { expect, test } from 'vitest';
import { verbmqErrorOf } from '../rpc/support.js';
import { json } from '../support/json-codec.js';
import { MeddlingCodec } from '../support/meddling-codec.js';
import type { SetUp } from '../support/set-up.js';
import { brokered, take } from './support.js';

export function codecs(setUp: SetUp): void {
  test('a codec of another kind, from all who push to all who do the work', async () => {
    const { broker, connect } = await brokered(setUp, { codec: json }, { codec: json });
    const jobs = queue<unknown>(await connect(), 'jobs', { codec: json });
    const bodies = [{ a: [1, 'ü'] }, null, 'x'.repeat(100_000)];
    for (const body of bodies) await jobs.push(body, { headers: { a: 'b' } });
    for (const body of bodies) await broker.push('jobs', body);
    await broker.push('jobs', { date: new Date(0) });
    const worker = queue<unknown>(await connect(), 'jobs', { codec: json });
    const again = worker.consume();
    const first = await again.next();
    expect(first.value?.headers).toEqual({ a: 'b' });
    first.value?.reject();
    await again.return();
    expect(await take(worker.consume({ prefetch: 3 }), 7)).toEqual([
      ...bodies,
      ...bodies,
      { date: '1970-01-01T00:00:00.000Z' }, // as from a client
    ]);
    expect(broker.stats('jobs')).toMatchObject({ acknowledged: 7, ready: 0 });
  });

  test('a client whose codec is not the queues’ pushes nothing, and gets nothing', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const jobs = queue<number>(connection, 'jobs', { codec: json });
    await broker.push('jobs', 1);
    const failures = [jobs.push(2), jobs.consume().next(), jobs.work(() => {})];
    for (const failure of failures)
      expect(await verbmqErrorOf(failure)).toMatchObject({ code: 'ERR_VERBMQ_DECODE', reason: 'codec' });
    expect(broker.stats('jobs')).toMatchObject({ pushed: 1, ready: 1, redelivered: 0 });
    expect(await take(queue<number>(connection, 'jobs').consume(), 1)).toEqual([1]);
  });

  test('a codec that pushes while a job of the broker’s own is copied: neither is lost', async () => {
    const codec = new MeddlingCodec();
    const broker = new QueueBroker({ codec, maxQueues: 1 });
    const inner: Promise<void>[] = [];
    codec.meddle = () => inner.push(broker.push('inner', 'within'));
    const error = await verbmqErrorOf(broker.push('outer', { meddle: 'encode' }));
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED', reason: 'queues' });
    expect(await Promise.all(inner)).toEqual([undefined]);
    expect(broker.stats('inner')).toMatchObject({ ready: 1 });
    expect(broker.stats()).toMatchObject({ queues: 1 });
  });

  test('a codec that pushes while the length of a client’s job is found out: neither is lost', async () => {
    const codec = new MeddlingCodec();
    const { broker, connect } = await brokered(
      setUp,
      { codec, maxQueues: 1, maxJobBytes: 200 },
      { codec: json },
    );
    const connection = await connect();
    const outer = queue<unknown>(connection, 'outer', { codec: json });
    const inner: Promise<string>[] = [];
    codec.meddle = () =>
      inner.push(verbmqErrorOf(broker.push('inner', 'within')).then(({ reason }) => reason ?? ''));
    await outer.push({ meddle: 'encode' });
    expect(await Promise.all(inner)).toEqual(['queues']);
    expect(await take(outer.consume(), 1)).toEqual([{ meddle: 'encode' }]);
    await queue(connection, 'inner', { codec: json }).push('after');
    expect(broker.stats()).toMatchObject({ queues: 1 });
  });

  test('a codec that ends its own consumer, or its connection, while it decodes a job: others get all that is not done', async () => {
    const { broker, connect } = await brokered(setUp, { codec: json }, { codec: json });
    const bodies = Array.from({ length: 20 }, (_, n) => (n === 3 ? { n, meddle: 'decode' } : { n }));
    for (const body of bodies) await broker.push('jobs', body);
    const done = new Set<number>();
    for (const how of ['leave', 'abort', 'neither']) {
      const connection = await connect();
      const codec = new MeddlingCodec();
      const consumption = queue<{ n: number }>(connection, 'jobs', { codec }).consume({ prefetch: 4 });
      let meddled = 0;
      codec.meddle = () => {
        meddled++;
        if (how === 'leave') void consumption.return();
        if (how === 'abort') connection.abort('meddling');
      };
      try {
        for await (const job of consumption) {
          done.add(job.body.n);
          job.acknowledge();
          if (done.size === bodies.length) break;
        }
      } catch (error) {
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_ABORTED' });
      }
      expect(meddled).toBeGreaterThan(0);
    }
    expect(done.size).toBe(bodies.length);
    expect(broker.stats('jobs')).toMatchObject({ ready: 0, unacknowledged: 0 });
  });
}
