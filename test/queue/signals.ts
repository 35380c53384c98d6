import { getEventListeners } from 'node:events';
import { queue } from '@verbmq/core/queue';
import { expect, test } from 'vitest';
import { errorOf, Gate, until, verbmqErrorOf } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import type { SetUp } from '../support/set-up.js';
import { brokered, take } from './support.js';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

export function signals(setUp: SetUp): void {
  test('consume: before, while it waits, and while jobs are given', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const jobs = queue<number>(connection, 'jobs');
    const before = AbortSignal.abort('before');
    const late = jobs.consume({ signal: before });
    expect((await verbmqErrorOf(late.next())).code).toBe('ERR_VERBMQ_CANCELLED');
    expect(await late.next()).toEqual({ done: true, value: undefined });
    expect(broker.stats('jobs')).toBe(undefined);

    const waiting = new AbortController();
    const two = [jobs.consume({ signal: waiting.signal }), jobs.consume({ signal: waiting.signal })];
    const nexts = two.map((consumed) => verbmqErrorOf(consumed.next()));
    await until(() => broker.stats('jobs')?.consumers === 2);
    expect(listeners(waiting.signal)).toBe(1); // for however many
    waiting.abort('enough');
    for (const next of nexts) expect(await next).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
    await until(() => broker.stats('jobs')?.consumers === 0);

    const given = new AbortController();
    for (let n = 0; n < 5; n++) await jobs.push(n);
    const consumed = jobs.consume({ prefetch: 4, signal: given.signal });
    const first = await consumed.next();
    await until(() => broker.stats('jobs')?.unacknowledged === 4);
    await turns();
    given.abort();
    first.value?.acknowledge(); // too late
    // What has arrived is not given any more: it is somebody else's now.
    expect((await verbmqErrorOf(consumed.next())).code).toBe('ERR_VERBMQ_CANCELLED');
    expect(await consumed.next()).toEqual({ done: true, value: undefined });
    await until(() => broker.stats('jobs')?.ready === 5);
    expect(await take(jobs.consume(), 5)).toEqual([0, 1, 2, 3, 4]);

    const unused = new AbortController();
    const left = jobs.consume({ signal: unused.signal });
    const wait = left.next();
    await left.return();
    await wait;
    for (const signal of [before, waiting.signal, given.signal, unused.signal])
      expect(listeners(signal)).toBe(0);
    expect(connection.state).toBe('open');
  });

  test('work: before, while it waits, and while a job is done', async () => {
    const { broker, connect } = await brokered(setUp);
    const jobs = queue<number>(await connect(), 'jobs');
    const before = AbortSignal.abort();
    await jobs.work(() => {}, { signal: before });
    const waiting = new AbortController();
    const idle = jobs.work(() => {}, { signal: waiting.signal });
    await until(() => broker.stats('jobs')?.consumers === 1);
    waiting.abort();
    await idle;
    for (let n = 0; n < 3; n++) await jobs.push(n);
    const busy = new AbortController();
    const gate = new Gate();
    const done: number[] = [];
    const working = jobs.work(
      async (n) => {
        busy.abort();
        await gate.opened;
        done.push(n);
      },
      { signal: busy.signal, concurrency: 2 },
    );
    await until(() => busy.signal.aborted);
    await turns();
    gate.open();
    await working;
    expect(done).toEqual([0]);
    expect(broker.stats('jobs')).toMatchObject({ acknowledged: 1, ready: 2, consumers: 0 });
    for (const signal of [before, waiting.signal, busy.signal]) expect(listeners(signal)).toBe(0);
  });

  test('push: before, and while it waits for room, from here and from there', async () => {
    const { broker, connect } = await brokered(setUp, { maxReady: 1, whenFull: 'wait' });
    const jobs = queue<number>(await connect(), 'jobs');
    await jobs.push(1);
    const alone = broker.stats().heldBytes;
    const controller = new AbortController();
    const { signal } = controller;
    const pushes = [
      verbmqErrorOf(jobs.push(2, { signal })),
      errorOf(broker.push('jobs', 3, { signal })),
      errorOf(broker.push('jobs', 4, { signal: AbortSignal.abort(new Error('before')) })),
    ];
    await until(() => broker.stats().heldBytes === 3 * alone);
    controller.abort(new Error('enough'));
    const [there, here, before] = await Promise.all(pushes);
    expect(there).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
    expect([here?.message, before?.message]).toEqual(['enough', 'before']);
    expect(listeners(signal)).toBe(0);
    expect(await take(jobs.consume(), 1)).toEqual([1]);
    await until(() => broker.stats().heldBytes === 0);
    const taken = new AbortController();
    await jobs.push(5, { signal: taken.signal });
    const later = broker.push('jobs', 6, { signal: taken.signal });
    expect(await take(jobs.consume(), 2)).toEqual([5, 6]);
    await later;
    expect(listeners(taken.signal)).toBe(0);
  });
}
