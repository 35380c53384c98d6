import { queue } from '@verbmq/core/queue';
import { expect, test } from 'vitest';
import { verbmqErrorOf } from '../rpc/support.js';
import { json } from '../support/json-codec.js';
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
}
