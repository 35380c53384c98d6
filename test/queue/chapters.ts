// Longer than 300 lines: it is one list of what a queue does.
import { type Job, type Queue, type QueueBrokerOptions, queue } from '@verbmq/core/queue';
import { client } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { Gate, until, verbmqErrorOf } from '../rpc/support.js';
import { isPending, turns } from '../support/expectations.js';
import { type SetUp, stretched } from '../support/set-up.js';
import { codecs } from './codecs.js';
import { signals } from './signals.js';
import { brokered, take } from './support.js';
import { tracing } from './tracing.js';

export function queues(name: string, setUp: SetUp): void {
  describe(`queues over ${name}`, () => {
    describe('headers and tracing', () => tracing(setUp));
    describe('codecs', () => codecs(setUp));
    describe('signals', () => signals(setUp));

    test('what is pushed is done, in order, once', async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      for (let n = 0; n < 100; n++) await jobs.push(n);
      expect(broker.stats('jobs')).toMatchObject({ ready: 100, pushed: 100, consumers: 0 });
      const worker = queue<number>(await connect(), 'jobs');
      expect(await take(worker.consume({ prefetch: 10 }), 100)).toEqual(
        Array.from({ length: 100 }, (_, n) => n),
      );
      expect(broker.stats('jobs')).toMatchObject({
        ready: 0,
        unacknowledged: 0,
        consumers: 0,
        acknowledged: 100,
        redelivered: 0,
      });
    });

    test('bodies of any kind, and queues that do not mix', async () => {
      const { connect } = await brokered(setUp);
      const connection = await connect();
      const [a, b] = [queue<unknown>(connection, 'a'), queue<unknown>(connection, 'bé')];
      await a.push({ x: [1] });
      await b.push(undefined);
      await a.push(new Uint8Array(100_000).fill(3));
      const [first, second] = await take(a.consume(), 2);
      expect(first).toEqual({ x: [1] });
      expect((second as Uint8Array).every((byte) => byte === 3)).toBe(true);
      expect(await take(b.consume(), 1)).toEqual([undefined]);
    });

    test('the process of the queues pushes as others do', async () => {
      const { broker, connect } = await brokered(setUp, { maxReady: 4 });
      const mine = { x: [1], bytes: Uint8Array.of(1) };
      await broker.push('jobs', mine);
      mine.x.push(2); // the queue has a copy
      const bytes = new Uint8Array(100_000).fill(3);
      await broker.push('jobs', bytes);
      bytes.fill(4);
      await broker.push('jobs', undefined);
      expect(await verbmqErrorOf(broker.push('jobs', () => {}))).toMatchObject({ code: 'ERR_VERBMQ_ENCODE' });
      await expect(broker.push('', 1)).rejects.toThrow(/name/);
      await broker.push('jobs', 'last');
      expect(await verbmqErrorOf(broker.push('jobs', 1))).toMatchObject({ reason: 'queue-full' });
      const [object, large, nothing, last] = await take(queue(await connect(), 'jobs').consume(), 4);
      expect(object).toEqual({ x: [1], bytes: Uint8Array.of(1) });
      expect((large as Uint8Array).every((byte) => byte === 3)).toBe(true);
      expect([nothing, last]).toEqual([undefined, 'last']);
    });

    test('a consumer has no more than its prefetch, and consumers take turns', async () => {
      const { broker, connect } = await brokered(setUp);
      const connection = await connect();
      const jobs = queue<number>(connection, 'jobs');
      const held: Job<number>[][] = [[], []];
      for (const [i, prefetch] of [3, 2].entries()) {
        const worker = queue<number>(await connect(), 'jobs');
        void (async () => {
          for await (const job of worker.consume({ prefetch })) held[i]?.push(job);
        })().catch(() => {});
      }
      await until(() => broker.stats('jobs')?.consumers === 2);
      for (let n = 0; n < 10; n++) await jobs.push(n);
      await until(() => held[0]?.length === 3 && held[1]?.length === 2);
      await turns();
      expect(broker.stats('jobs')).toMatchObject({ ready: 5, unacknowledged: 5 });
      expect(
        held
          .flat()
          .map((job) => job.body)
          .sort(),
      ).toEqual([0, 1, 2, 3, 4]);
      expect(held[0]?.[0]?.body).toBe(0);
      expect(held[1]?.[0]?.body).toBe(1);
      held[1]?.[0]?.acknowledge();
      await until(() => held[1]?.length === 3);
      expect(held[1]?.[2]?.body).toBe(5);
    });

    test('a consumer that is lost gives its work to others, in its order, before all else', async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      for (let n = 0; n < 6; n++) await jobs.push(n);
      const doomed = await connect();
      const held: Job<number>[] = [];
      const lost = (async () => {
        for await (const job of queue<number>(doomed, 'jobs').consume({ prefetch: 4 })) {
          held.push(job);
          if (job.body === 1) job.acknowledge();
        }
      })();
      await until(() => held.length === 5 && broker.stats('jobs')?.acknowledged === 1);
      doomed.abort('the worker dies');
      await verbmqErrorOf(lost);
      const seen: [number, number][] = [];
      for await (const job of queue<number>(await connect(), 'jobs').consume()) {
        seen.push([job.body, job.attempt]);
        job.acknowledge();
        if (seen.length === 5) break;
      }
      expect(seen).toEqual([
        [0, 2],
        [2, 2],
        [3, 2],
        [4, 2],
        [5, 1],
      ]);
      expect(broker.stats('jobs')).toMatchObject({
        acknowledged: 6,
        redelivered: 4,
        unacknowledged: 0,
        consumers: 0,
      });
    });

    test('what is rejected comes again, or is given up', async () => {
      const dead: unknown[] = [];
      const { broker, connect } = await brokered(setUp, {
        maxAttempts: 3,
        onDead: (...args) => dead.push(args),
      });
      const jobs = queue<string>(await connect(), 'jobs');
      await jobs.push('bad');
      await jobs.push('never');
      await jobs.push('good');
      const seen: string[] = [];
      for await (const job of jobs.consume()) {
        seen.push(`${job.body} ${job.attempt}`);
        if (job.body === 'bad') job.reject();
        else if (job.body === 'never') job.reject({ requeue: false });
        else {
          job.acknowledge();
          break;
        }
      }
      expect(seen).toEqual(['bad 1', 'bad 2', 'bad 3', 'never 1', 'good 1']);
      expect(dead).toEqual([
        ['jobs', 'bad', 3],
        ['jobs', 'never', 1],
      ]);
      expect(broker.stats('jobs')).toMatchObject({
        dead: 2,
        acknowledged: 1,
        unacknowledged: 0,
        redelivered: 2,
      });
    });

    test('work that is not acknowledged in time goes to somebody else, and a late word changes nothing', async () => {
      const { broker, connect } = await brokered(setUp, { ackTimeoutMs: stretched(30) });
      const jobs = queue<string>(await connect(), 'jobs');
      const slow = queue<string>(await connect(), 'jobs').consume();
      const first = slow.next();
      await until(() => broker.stats('jobs')?.consumers === 1);
      await jobs.push('work');
      const late = (await first).value as Job<string>;
      const others = queue<string>(await connect(), 'jobs');
      let attempt = 0;
      // On a busy machine the word may be too late again.
      while (broker.stats('jobs')?.acknowledged === 0) {
        for await (const job of others.consume()) {
          attempt = job.attempt;
          late.acknowledge(); // of the first attempt
          job.acknowledge();
          break;
        }
      }
      expect(attempt).toBeGreaterThanOrEqual(2);
      await slow.return();
      await until(() => broker.stats('jobs')?.unacknowledged === 0);
      expect(broker.stats('jobs')).toMatchObject({ acknowledged: 1, ready: 0 });
    });

    test('what was acknowledged before the loop was left stays done, the rest goes to others', async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      for (let n = 0; n < 20; n++) await jobs.push(n);
      expect(await take(jobs.consume({ prefetch: 8 }), 5)).toEqual([0, 1, 2, 3, 4]);
      expect(broker.stats('jobs')).toMatchObject({
        acknowledged: 5,
        ready: 15,
        unacknowledged: 0,
        consumers: 0,
      });
      expect(await take(jobs.consume(), 15)).toEqual(Array.from({ length: 15 }, (_, n) => n + 5));
    });

    test('a consumer that is disposed of has left, though it waits for work or never asked for any', async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      let waiting: Promise<unknown>;
      {
        await using unused = jobs.consume();
        await using consumed = jobs.consume({ prefetch: 2 });
        await jobs.push(1);
        await jobs.push(2);
        const first = await consumed.next();
        expect(first.value?.body).toBe(1);
        first.value?.acknowledge();
        expect((await consumed.next()).value?.body).toBe(2);
        waiting = consumed.next();
        expect(unused).not.toBe(consumed);
      }
      expect(await waiting).toEqual({ done: true, value: undefined });
      expect(broker.stats('jobs')).toMatchObject({ consumers: 0, acknowledged: 1, ready: 1 });
      expect(await take(jobs.consume(), 1)).toEqual([2]);
    });

    test("a consumer's signal ends it, and gives back what it holds", async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      await jobs.push(1);
      const controller = new AbortController();
      const consumed = jobs.consume({ prefetch: 2, signal: controller.signal });
      expect((await consumed.next()).value?.body).toBe(1);
      const waiting = verbmqErrorOf(consumed.next());
      controller.abort('enough');
      expect(await waiting).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
      expect(await consumed.next()).toEqual({ done: true, value: undefined });
      await until(() => broker.stats('jobs')?.ready === 1);
      const late = jobs.consume({ signal: controller.signal }).next();
      expect((await verbmqErrorOf(late)).code).toBe('ERR_VERBMQ_CANCELLED');
      expect(broker.stats('jobs')).toMatchObject({ consumers: 0, unacknowledged: 0 });
    });

    test('work() does several at a time, tries again what failed, and leaves in order', async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      for (let n = 0; n < 50; n++) await jobs.push(n);
      const done = new Set<number>();
      let running = 0;
      let most = 0;
      const controller = new AbortController();
      const working = queue<number>(await connect(), 'jobs').work(
        async (n, job) => {
          most = Math.max(most, ++running);
          await turns(3);
          running--;
          if (n % 10 === 0 && job.attempt === 1) throw new Error('once more');
          done.add(n);
          if (done.size === 50) controller.abort();
        },
        { concurrency: 4, signal: controller.signal },
      );
      await working;
      expect(done.size).toBe(50);
      expect(most).toBe(4);
      expect(broker.stats('jobs')).toMatchObject({
        acknowledged: 50,
        redelivered: 5,
        ready: 0,
        unacknowledged: 0,
      });
    });

    test('a full queue refuses, drops or lets wait, as was chosen', async () => {
      const full = async (whenFull: QueueBrokerOptions['whenFull']) => {
        const { broker, connect } = await brokered(setUp, { maxReady: 2, ...(whenFull && { whenFull }) });
        const jobs = queue<number>(await connect(), 'jobs');
        await jobs.push(1);
        await jobs.push(2);
        return { broker, jobs };
      };
      const refusing = await full(undefined);
      const refused = await verbmqErrorOf(refusing.jobs.push(3));
      expect(refused).toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED', reason: 'queue-full', retryable: true });

      const oldest = await full('drop-oldest');
      await oldest.jobs.push(3);
      expect(await take(oldest.jobs.consume(), 2)).toEqual([2, 3]);
      expect(oldest.broker.stats('jobs')).toMatchObject({ dropped: 1 });

      const newest = await full('drop-newest');
      await newest.jobs.push(3);
      expect(await take(newest.jobs.consume(), 2)).toEqual([1, 2]);
      expect(newest.broker.stats('jobs')).toMatchObject({ dropped: 1, pushed: 2 });

      const waiting = await full('wait');
      const third = waiting.jobs.push(3);
      const controller = new AbortController();
      const fourth = verbmqErrorOf(waiting.jobs.push(4, { signal: controller.signal }));
      await turns(10);
      expect(await isPending(third)).toBe(true);
      controller.abort();
      await fourth;
      expect(await take(waiting.jobs.consume(), 3)).toEqual([1, 2, 3]);
      await third;
    });

    test('a queue is full with so many bytes as well, whatever was chosen', async () => {
      const kib = (n: number) => new Uint8Array(1000).fill(n);
      const full = async (whenFull: QueueBrokerOptions['whenFull']) => {
        const { broker, connect } = await brokered(setUp, {
          maxReadyBytes: 3200,
          ...(whenFull && { whenFull }),
        });
        const jobs = queue<Uint8Array>(await connect(), 'jobs');
        await jobs.push(kib(1));
        await jobs.push(kib(2));
        expect(broker.stats('jobs')?.readyBytes).toBeGreaterThan(2000);
        return { broker, jobs };
      };
      const numbers = async (jobs: Queue<Uint8Array>, count: number) =>
        (await take(jobs.consume(), count)).map((body) => body[0]);
      const tooLarge = new Uint8Array(3000);

      const refusing = await full(undefined);
      for (const body of [kib(3), tooLarge]) {
        expect(await verbmqErrorOf(refusing.jobs.push(body))).toMatchObject({ reason: 'queue-full' });
      }
      expect(await numbers(refusing.jobs, 2)).toEqual([1, 2]);

      const oldest = await full('drop-oldest');
      await oldest.jobs.push(tooLarge); // that nothing else makes room for
      await oldest.jobs.push(kib(3));
      expect(await numbers(oldest.jobs, 2)).toEqual([2, 3]);
      expect(oldest.broker.stats('jobs')).toMatchObject({ dropped: 2, pushed: 3, readyBytes: 0 });

      const newest = await full('drop-newest');
      await newest.jobs.push(kib(3));
      expect(await numbers(newest.jobs, 2)).toEqual([1, 2]);

      const waiting = await full('wait');
      expect(await verbmqErrorOf(waiting.jobs.push(tooLarge))).toMatchObject({ reason: 'queue-full' });
      const controller = new AbortController();
      const later = verbmqErrorOf(waiting.jobs.push(kib(3), { signal: controller.signal }));
      const two = [4, 5].map((n) => waiting.jobs.push(Uint8Array.of(n))); // small, but behind the one that waits
      await turns(10);
      expect(await isPending(two[0] as Promise<void>)).toBe(true);
      controller.abort();
      await later;
      await Promise.all(two);
      expect(await numbers(waiting.jobs, 4)).toEqual([1, 2, 4, 5]);
      for (const { broker } of [refusing, oldest, newest, waiting]) expect(broker.stats().heldBytes).toBe(0);
    });

    test('an idle queue makes room for another one, and one at work does not', async () => {
      const { broker, connect } = await brokered(setUp, { maxQueues: 2 });
      const connection = await connect();
      const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => queue<number>(connection, name)) as [
        Queue<number>,
        Queue<number>,
        Queue<number>,
        Queue<number>,
      ];
      await a.push(1);
      const consumer = b.consume();
      const waiting = consumer.next();
      await until(() => broker.stats('b')?.consumers === 1);
      const full = {
        code: 'ERR_VERBMQ_OVERLOADED',
        reason: 'queues',
        message: 'there are 2 queues already (maxQueues)',
      };
      expect(await verbmqErrorOf(c.push(1))).toMatchObject(full);
      expect(await verbmqErrorOf(c.consume().next())).toMatchObject(full);
      expect(await take(a.consume(), 1)).toEqual([1]);
      await c.push(2);
      expect(broker.stats('a')).toBe(undefined);
      await b.push(3);
      const held = (await waiting).value as Job<number>;
      expect(held.body).toBe(3);
      expect(await verbmqErrorOf(d.push(1))).toMatchObject({ reason: 'queues' });
      held.acknowledge();
      await consumer.return();
      await d.push(4);
      expect(await take(c.consume(), 1)).toEqual([2]);
      expect(broker.stats()).toMatchObject({ queues: 2, consumers: 0 });
    });

    test('a server drains when its consumers are released', async () => {
      const { broker, server, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      const consumed = verbmqErrorOf(take(jobs.consume(), 100));
      await until(() => broker.stats('jobs')?.consumers === 1);
      const drained = server.drain();
      broker.releaseConsumers();
      await drained;
      expect((await consumed).reason).toBe('released');
      expect(broker.stats('jobs')).toMatchObject({ consumers: 0 });
    });

    test('a peer that speaks nonsense is no consumer', async () => {
      const { broker, connect } = await brokered(setUp, { maxQueues: 3 });
      const raw = client<Record<string, (body: unknown) => AsyncIterable<unknown>>>(await connect());
      const work = (source: AsyncIterable<unknown>, metadata: Record<string, string>) =>
        (raw['queue:work'] as { stream(...args: unknown[]): AsyncIterable<unknown> }).stream(source, {
          metadata,
        });
      const gate = new Gate();
      async function* nonsense(...items: unknown[]): AsyncGenerator<unknown> {
        yield* items;
        await gate.opened;
      }
      const verdicts = [null, 5, {}, { tag: 1, verdict: 'maybe' }, { verdict: '__proto__' }];
      for (const verdict of verdicts) {
        for await (const _ of work(nonsense(verdict), { queue: 'jobs', prefetch: '1' }));
        expect(broker.stats('jobs')).toMatchObject({ consumers: 0 });
      }
      for (const metadata of [
        {},
        { queue: 'jobs' },
        { queue: 'jobs', prefetch: '1e9' },
        { queue: '', prefetch: '1' },
      ]) {
        const read = (async () => {
          for await (const _ of work(nonsense(), metadata as Record<string, string>));
        })();
        await expect(read).rejects.toThrow(/prefetch|name/);
      }
      const push = raw['queue:push'] as unknown as (body: unknown) => Promise<unknown>;
      for (const body of [null, 1, {}, { queue: 'x'.repeat(256) }])
        await expect(push(body)).rejects.toThrow(/queue/);
      for (const name of ['b', 'c', 'd']) await push({ queue: name }); // `jobs` is idle, and makes room
      expect(await push({ queue: 'e' })).toMatchObject({ refused: 'queues' });
      gate.open();
    });
  });
}
