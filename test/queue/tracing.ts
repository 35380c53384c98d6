import { AsyncLocalStorage } from 'node:async_hooks';
import { type Job, type JobTrace, queue, queueChannels } from '@verbmq/core/queue';
import { client } from '@verbmq/core/rpc';
import { expect, onTestFinished, test } from 'vitest';
import { errorOf, until } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import type { SetUp } from '../support/set-up.js';
import { hearTracing } from '../support/tracing.js';
import { brokered } from './support.js';

/** Writes down what the channel of jobs tells, but for `asyncStart`, which says what `asyncEnd` does. */
function recordJobs(): string[] {
  const events: string[] = [];
  hearTracing(queueChannels.job, (event, { queue: name, attempt, verdict, error }) => {
    const why = event === 'error' ? ` ${(error as { code?: string }).code ?? (error as Error).message}` : '';
    const what = verdict === undefined ? '' : ` ${verdict}`;
    if (event !== 'asyncStart') events.push(`${event} ${name} ${attempt}${what}${why}`);
  });
  return events;
}

export function tracing(setUp: SetUp): void {
  test('headers of a push reach who does the job, with each attempt', async () => {
    const { broker, connect } = await brokered(setUp);
    const jobs = queue<number>(await connect(), 'jobs');
    await jobs.push(1, { headers: { traceparent: 'ü', tenant: 't' }, metadata: { token: 'secret' } });
    await jobs.push(2);
    await broker.push('jobs', 3, { headers: { __proto__: null, '': '', a: 'b' } as never });
    const seen: unknown[] = [];
    for await (const job of jobs.consume()) {
      seen.push([job.body, job.attempt, { ...job.headers }]);
      if (job.attempt === 1 && job.body === 1) job.reject();
      else job.acknowledge();
      if (job.body === 3) break;
    }
    expect(seen).toEqual([
      [1, 1, { traceparent: 'ü', tenant: 't' }],
      [1, 2, { traceparent: 'ü', tenant: 't' }],
      [2, 1, {}],
      [3, 1, { '': '', a: 'b' }],
    ]);
  });

  test('headers that are none, or too many, fail that push', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    const jobs = queue<number>(connection, 'jobs');
    const raw = client<{ 'queue:push': (push: unknown) => Promise<unknown> }>(connection);
    for (const headers of [null, 5, { a: 1 }, { a: 'x'.repeat(9000) }]) {
      const bad = headers as never;
      await expect(jobs.push(1, { headers: bad })).rejects.toThrow(/header/);
      await expect(broker.push('jobs', 1, { headers: bad })).rejects.toThrow(/header/);
      await expect(raw['queue:push']({ queue: 'jobs', body: 1, headers })).rejects.toThrow(/header/);
    }
    expect(broker.stats('jobs')?.pushed ?? 0).toBe(0);
  });

  test('channels tell of pushes, and of jobs until they are judged', async () => {
    const { connect } = await brokered(setUp, { maxReady: 3 });
    const connection = await connect();
    const jobs = queue<string>(connection, 'jobs');
    const pushes: string[] = [];
    hearTracing(queueChannels.push, (event, trace) => {
      if (event !== 'asyncStart') pushes.push(event);
      expect(trace).toMatchObject({ queue: 'jobs', connection });
    });
    const events = recordJobs();
    await jobs.push('a');
    expect(pushes).toEqual(['start', 'end', 'asyncEnd']);
    await jobs.push('b');
    await jobs.push('c');
    pushes.length = 0;
    expect((await errorOf(jobs.push('d'))).code).toBe('ERR_VERBMQ_OVERLOADED');
    expect(pushes).toEqual(['start', 'end', 'error', 'asyncEnd']);

    const consumed = jobs.consume({ prefetch: 3 });
    const [a, b] = [(await consumed.next()).value, (await consumed.next()).value] as Job<string>[];
    expect(events).toEqual(['start jobs 1', 'end jobs 1', 'start jobs 1', 'end jobs 1']);
    events.length = 0;
    a?.acknowledge();
    a?.reject(); // too late
    b?.reject({ requeue: false });
    await until(() => events.length === 2);
    expect(events).toEqual(['asyncEnd jobs 1 done', 'asyncEnd jobs 1 never']);
    events.length = 0;
    const c = (await consumed.next()).value;
    await consumed.return(); // without a word of it
    c?.acknowledge();
    await until(() => events.length === 4);
    expect(events.slice(2)).toEqual(['error jobs 1 ERR_VERBMQ_CANCELLED', 'asyncEnd jobs 1']);
  });

  test('a job is over with its handler, its error, or its connection', async () => {
    const { connect } = await brokered(setUp);
    const jobs = queue<number>(await connect(), 'jobs');
    const connection = await connect();
    const events = recordJobs();
    await jobs.push(1);
    const working = queue<number>(connection, 'jobs').work(async (_, { attempt }) => {
      if (attempt === 1) throw new Error('once more');
      connection.abort('lost');
      await connection.closed;
      await turns();
    });
    await errorOf(working);
    await until(() => events.filter((event) => event.startsWith('asyncEnd')).length === 2);
    expect(events).toContain('error jobs 1 again once more');
    expect(events).toContain('error jobs 2 ERR_VERBMQ_ABORTED');
  });

  test('carries a context from who pushes to the handler', async () => {
    const { broker, connect } = await brokered(setUp);
    const storage = new AsyncLocalStorage<string>();
    hearTracing(queueChannels.push, (event, { headers }) => {
      if (event === 'start') headers.traceparent = `of ${storage.getStore()}`;
    });
    queueChannels.job.start.bindStore(storage, ({ headers }: JobTrace) => headers.traceparent as string);
    onTestFinished(() => {
      queueChannels.job.start.unbindStore(storage);
    });
    const jobs = queue<number>(await connect(), 'jobs');
    await storage.run('a client', () => jobs.push(1));
    await storage.run('the broker', () => broker.push('jobs', 2));
    const seen: unknown[] = [];
    const controller = new AbortController();
    await jobs.work(
      async () => {
        await new Promise((resolve) => setImmediate(resolve));
        if (seen.push(storage.getStore()) === 2) controller.abort();
      },
      { signal: controller.signal },
    );
    expect(seen).toEqual(['of a client', 'of the broker']);
  });
}
