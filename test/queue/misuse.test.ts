import { type Queue, QueueBroker, queue } from '@verbmq/core/queue';
import { expect, test } from 'vitest';
import { errorOf, Gate, until, verbmqErrorOf } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import { recordedLog } from '../support/recorded-log.js';
import { memorySetUp } from '../support/transports/memory.js';
import { brokered, take } from './support.js';

const setUp = memorySetUp();

test('a handler that fails is logged, whoever traces, and whatever it said of its job before', async () => {
  const { lines, logger } = recordedLog();
  const { broker, connect } = await brokered(setUp);
  const jobs = queue<number>(await connect(), 'jobs', { logger });
  await jobs.push(1);
  await jobs.push(2);
  const controller = new AbortController();
  const failures = [new Error('once'), new Error('behind its verdict')];
  await jobs.work(
    (n, job) => {
      if (n === 1 && job.attempt === 1) throw failures[0];
      if (n === 1) return;
      controller.abort();
      job.acknowledge();
      throw failures[1];
    },
    { signal: controller.signal },
  );
  const common = { part: 'queue', queue: 'jobs', level: 'warn', message: 'a handler failed', attempt: 1 };
  expect(lines).toEqual([
    { ...common, err: failures[0] },
    { ...common, err: failures[1] },
  ]);
  expect(broker.stats('jobs')).toMatchObject({ acknowledged: 2, redelivered: 1, ready: 0 });
});

test('work without a handler, or with what is no signal, takes no job and leaves no consumer', async () => {
  const { broker, connect } = await brokered(setUp);
  const jobs = queue<number>(await connect(), 'jobs');
  await jobs.push(1);
  expect(await errorOf(jobs.work('handler' as never))).toBeInstanceOf(TypeError);
  expect(await errorOf(jobs.work(() => {}, { signal: {} as never }))).toBeInstanceOf(TypeError);
  expect(await take(jobs.consume(), 1)).toEqual([1]); // behind what those may have sent
  expect(broker.stats('jobs')).toMatchObject({ consumers: 0, redelivered: 0 });
});

test('a push with what is no signal is refused, and not done later', async () => {
  const broker = new QueueBroker({ maxReady: 1, whenFull: 'wait' });
  await broker.push('jobs', 1);
  const { heldBytes } = broker.stats();
  expect(await errorOf(broker.push('jobs', 2, { signal: {} as never }))).toBeInstanceOf(TypeError);
  expect(broker.stats().heldBytes).toBe(heldBytes);
});

test('an onDead that is no function is found at once', () => {
  expect(() => new QueueBroker({ onDead: 5 as never })).toThrow(TypeError);
});

test('a job that waited for its turn is not begun when its consumer was lost meanwhile', async () => {
  // Given again after the time for a verdict: more than this consumer asked for.
  const { broker, connect } = await brokered(setUp, { ackTimeoutMs: 1 });
  const near = await connect();
  await broker.push('jobs', 'once');
  const gate = new Gate();
  let begun = 0;
  const working = errorOf(
    queue<string>(near, 'jobs').work(async () => {
      begun++;
      await gate.opened;
    }),
  );
  await until(() => begun === 1);
  const { messagesReceived } = near.stats();
  await until(() => near.stats().messagesReceived > messagesReceived); // the same job, which waits for the first
  await turns();
  near.abort('lost');
  await until(() => broker.stats('jobs')?.consumers === 0);
  gate.open();
  await working;
  expect(begun).toBe(1);
  expect(broker.stats('jobs')).toMatchObject({ ready: 1, unacknowledged: 0 });
});

test('jobs that come while one of them takes for ever are done one after the other', async () => {
  // Given again after the time for a verdict: more than this consumer asked for.
  const { broker, connect } = await brokered(setUp, { ackTimeoutMs: 30 });
  const jobs = queue<string>(await connect(), 'jobs');
  await jobs.push('stuck');
  const controller = new AbortController();
  let release!: () => void;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let running = 0;
  let most = 0;
  let first = true;
  const working = jobs.work(
    async (body) => {
      most = Math.max(most, ++running);
      if (body === 'stuck' && first) {
        first = false;
        await released;
      } else {
        await turns();
      }
      running--;
    },
    { concurrency: 2, signal: controller.signal },
  );
  await until(() => (broker.stats('jobs')?.redelivered ?? 0) > 0);
  await Promise.all(Array.from({ length: 20 }, () => jobs.push('quick')));
  await until(() => (broker.stats('jobs')?.acknowledged ?? 0) >= 21);
  expect(most).toBeLessThanOrEqual(2);
  controller.abort();
  release();
  await working;
});

test('a job that was judged in time is not given again because the process of its queue was busy', async () => {
  const ackTimeoutMs = 50;
  const { broker, connect } = await brokered(setUp, { ackTimeoutMs });
  const jobs = queue<number>(await connect(), 'jobs');
  await jobs.push(1);
  const controller = new AbortController();
  const working = jobs.work(
    () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * ackTimeoutMs),
    { signal: controller.signal },
  );
  await until(() => broker.stats('jobs')?.unacknowledged === 0 && broker.stats('jobs')?.acknowledged === 1);
  controller.abort();
  await working;
  expect(broker.stats('jobs')).toMatchObject({ acknowledged: 1, redelivered: 0 });
});

test('the time of a client is for its pushes, and ends nobody who waits for work', async () => {
  const { broker, connect } = await brokered(setUp, { maxReady: 1, whenFull: 'wait' });
  const connection = await connect();
  const [jobs, full] = ['jobs', 'full'].map((name) => queue<number>(connection, name, { timeoutMs: 10 })) as [
    Queue<number>,
    Queue<number>,
  ];
  const next = jobs.consume().next();
  await full.push(1);
  expect((await verbmqErrorOf(full.push(2))).code).toBe('ERR_VERBMQ_RPC_DEADLINE'); // that of `next` would be over before
  await broker.push('jobs', 7);
  expect((await next).value?.body).toBe(7);
});
