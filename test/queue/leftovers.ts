import { queue } from '@verbmq/core/queue';
import { client, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { expectNothingMore, expectSame, inUse } from '../support/leftovers.js';
import { type SetUp, scaled } from '../support/set-up.js';
import { brokered } from './support.js';

interface Work {
  readonly n: number;
  readonly bytes?: Uint8Array;
}

/** Fewer than are pushed at a time, so that some of those wait for room. */
const MAX_READY = 16;
const PUSHERS = 32;

export function leftovers(setUp: SetUp, count = 100_000): void {
  const title = `after ${count.toLocaleString('en')} jobs`;
  test(`${title}: no job, no consumer, no call, no listener, no timer, no handle, no memory`, {
    timeout: 240_000,
  }, async () => {
    const { broker, connect } = await brokered(setUp, {
      maxReady: MAX_READY,
      whenFull: 'wait',
      ackTimeoutMs: 600_000,
      maxQueues: 2,
    });
    const [near, far] = [await connect(), await connect()];
    const jobs = queue<Work>(near, 'jobs');
    const worker = queue<Work>(far, 'jobs');
    const { signal } = new AbortController();
    const options = { signal, timeoutMs: 600_000 };
    const large = new Uint8Array(100_000);
    let done = 0;

    const push = async (n: number): Promise<void> => {
      const work = n % 500 === 3 ? { n, bytes: large } : { n };
      if (n % 10 === 5) await broker.push('jobs', work, options);
      else if (n % 10 === 7) await jobs.push(work, { ...options, headers: { number: `${n}` } });
      else await jobs.push(work, options);
      if (n % 100 === 0) await verbmqErrorOf(jobs.push((() => {}) as never, options));
    };
    /** Some fail at first, and are given to somebody again. */
    const handle = ({ n, bytes }: Work, attempt: number, headers: { number?: string }): void => {
      if (n % 50 === 1 && attempt === 1) throw new Error('once more');
      expectSame(bytes?.byteLength, n % 500 === 3 ? large.byteLength : undefined);
      if (n % 10 === 7) expectSame(headers.number, `${n}`);
      done++;
    };
    const round = async (pushes: number): Promise<void> => {
      done = 0;
      let next = 0;
      const pusher = async (): Promise<void> => {
        while (next < pushes) await push(next++);
      };
      const enough = new AbortController();
      const working = worker.work(
        async (work, job) => {
          if (work.n % 4 === 0) await undefined;
          handle(work, job.attempt, job.headers);
        },
        { concurrency: 8, signal: enough.signal },
      );
      // Comes and goes, with work that it has not judged.
      const visitor = async (): Promise<void> => {
        while (!enough.signal.aborted) {
          const consumed = worker.consume({ prefetch: 4, signal });
          const leave = (): void => void consumed.return();
          enough.signal.addEventListener('abort', leave, { once: true });
          let taken = 0;
          for await (const job of consumed) {
            if (++taken === 20) break;
            try {
              handle(job.body, job.attempt, job.headers);
              job.acknowledge();
            } catch {
              job.reject();
            }
          }
          enough.signal.removeEventListener('abort', leave);
        }
      };
      const visits = visitor();
      await Promise.all(Array.from({ length: PUSHERS }, pusher));
      await until(() => done >= pushes);
      enough.abort();
      await Promise.all([working, visits]);
      expectSame(done, pushes);
      await until(() => broker.stats('jobs')?.acknowledged === broker.stats('jobs')?.pushed);
    };
    await round(scaled(10_000));
    const before = inUse();
    const { pushed, redelivered } = broker.stats('jobs') as { pushed: number; redelivered: number };
    await round(scaled(count));
    const stats = broker.stats('jobs');
    expect(stats).toMatchObject({ ready: 0, readyBytes: 0, unacknowledged: 0, consumers: 0, dead: 0 });
    expect(stats?.pushed).toBe(pushed + scaled(count));
    expect(stats?.redelivered).toBeGreaterThan(redelivered + scaled(count) / 50 - 1);
    expect(broker.stats()).toEqual({ queues: 1, consumers: 0, heldBytes: 0 });
    for (const connection of [near, far])
      expect(rpcStats(connection)).toMatchObject({ pendingCalls: 0, runningCalls: 0, backlogBytes: 0 });
    expectNothingMore(before, signal);
  });

  test('after 2,000 consumers that are lost: no consumer, no timer, and every job waits again', {
    timeout: 240_000,
  }, async () => {
    const { broker, connect } = await brokered(setUp, { ackTimeoutMs: 600_000 });
    const connection = await connect();
    const jobs = queue<number>(connection, 'jobs');
    for (let n = 0; n < 10; n++) await jobs.push(n);
    const api = client<(typeof broker)['service']>(connection);
    const options = { metadata: { queue: 'jobs', prefetch: '10' } };
    const lose = async (consumers: number): Promise<void> => {
      for (let n = 0; n < consumers; n++) {
        const deliveries = api['queue:work'].stream(nothing(), options);
        await deliveries.next();
        deliveries.cancel('lost');
        if (n % 100 === 0) await until(() => broker.stats('jobs')?.consumers === 0);
      }
      await until(() => broker.stats('jobs')?.consumers === 0);
    };
    await lose(scaled(500));
    const before = inUse();
    const { heldBytes } = broker.stats();
    await lose(scaled(2000));
    expect(broker.stats('jobs')).toMatchObject({ ready: 10, unacknowledged: 0, acknowledged: 0 });
    expect(broker.stats()).toEqual({ queues: 1, consumers: 0, heldBytes });
    expect(rpcStats(connection)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
    expectNothingMore(before);
  });
}

/** A consumer that never says a word. */
async function* nothing(): AsyncGenerator<never> {
  await new Promise(() => {});
}
