import { type Job, type Queue, queue } from '@verbmq/core/queue';
import { type Service, serve } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { Gate, until, verbmqErrorOf } from '../rpc/support.js';
import { isPending, turns } from '../support/expectations.js';
import { expectNoMore, type InUse, inUse } from '../support/leftovers.js';
import { connectPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';

/** A client's queue at a broker that does what `service` says. */
async function lying(service: Service) {
  const { client, server } = await connectPair(memorySetUp());
  return { jobs: queue<unknown>(client, 'jobs'), server: serve(server, service), connection: client };
}

async function* giving(...deliveries: unknown[]): AsyncGenerator<unknown> {
  yield* deliveries;
  await new Promise(() => {}); // and never ends
}

describe('a broker that lies to a client of its queues', () => {
  test.each([
    ['nothing', null],
    ['a number', 5],
    ['an object', { tag: 1, attempt: 1, body: 1 }],
    ['no tag', []],
    ['a bad tag', ['x', 1, null, 1]],
    ['headers that are none', [1, 1, { a: 1 }, 1]],
    ['a bad attempt', [1, null, null, 1]],
  ])('%s as work ends that consumer alone', async (_, delivery) => {
    const { jobs, server, connection } = await lying({ 'queue:work': () => giving(delivery) });
    const read = async () => {
      for await (const _ of jobs.consume());
    };
    for (const ended of [read(), jobs.work(() => {})])
      expect((await verbmqErrorOf(ended)).code).toBe('ERR_VERBMQ_PROTOCOL');
    await until(() => server.stats().running === 0);
    expect(connection.state).toBe('open');
  });

  test('an answer to a push that is none fails that push', async () => {
    const answers = [null, 5, { refused: 1, message: 'x' }, undefined];
    const { jobs } = await lying({ 'queue:push': () => answers.shift() });
    for (let n = 0; n < 3; n++) expect((await verbmqErrorOf(jobs.push(1))).code).toBe('ERR_VERBMQ_PROTOCOL');
    await jobs.push(1);
  });

  test('work beyond what was asked for is not begun', async () => {
    const work = Array.from({ length: 100 }, (_, tag) => [tag, 1, null, tag]);
    const { jobs } = await lying({ 'queue:work': () => giving(...work) });
    const controller = new AbortController();
    let running = 0;
    let most = 0;
    let done = 0;
    await jobs
      .work(
        async () => {
          most = Math.max(most, ++running);
          await new Promise((resolve) => setImmediate(resolve));
          running--;
          if (++done === work.length) controller.abort();
        },
        { concurrency: 3, signal: controller.signal, leaveTimeoutMs: 20 },
      )
      .catch(() => {});
    expect(most).toBe(3);
  });

  /** A broker that gives `count` jobs whatever is said, and reads what is said only after `gate` has opened. */
  const deaf = (count: number, gate: Gate) => {
    const heard: unknown[] = [];
    const service: Service = {
      async *'queue:work'(verdicts: AsyncIterable<{ tag: number }>) {
        const all = (async () => {
          await gate.opened;
          for await (const { tag } of verdicts) if (heard.push(tag) === count) break;
        })();
        for (let tag = 1; tag <= count; tag++) yield [tag, 1, null, tag];
        await all;
      },
    };
    return { service, heard };
  };

  /** Resolves when `count` has stood still for many turns of the event loop, and answers with it. */
  async function still(count: () => number): Promise<number> {
    for (let before = -1; before !== count(); await turns(50)) before = count();
    return count();
  }

  const MANY = 20_000;
  const readers: [string, (jobs: Queue<unknown>, each: (job: Job<unknown>) => void) => Promise<void>][] = [
    [
      'consume',
      async (jobs, each) => {
        for await (const job of jobs.consume({ prefetch: 10 })) each(job);
      },
    ],
    ['work', (jobs, each) => jobs.work((_, job) => each(job), { concurrency: 10 })],
  ];
  test.each(readers)('verdicts that it does not read hold up %s, and none is lost', async (_, read) => {
    const gate = new Gate();
    const { service, heard } = deaf(MANY, gate);
    const { jobs } = await lying(service);
    let judged = 0;
    const reading = read(jobs, (job) => {
      job.acknowledge();
      judged++;
    });
    const most = await still(() => judged);
    expect(most).toBeGreaterThan(100);
    expect(most).toBeLessThan(MANY / 4); // what the window of a stream takes, and the prefetch
    gate.open();
    expect((await verbmqErrorOf(reading)).reason).toBe('released');
    expect(heard).toEqual(Array.from({ length: MANY }, (_, n) => n + 1));
  });

  test('a consumer whose verdicts wait can leave, and ends with its connection', async () => {
    for (const end of ['leave', 'abort'] as const) {
      const { service } = deaf(MANY, new Gate());
      const { jobs, connection, server } = await lying(service);
      let judged = 0;
      const consumed = jobs.consume({ leaveTimeoutMs: 20 });
      const reading = (async () => {
        for await (const job of consumed) {
          job.acknowledge();
          judged++;
        }
      })();
      await still(() => judged);
      expect(await isPending(reading)).toBe(true);
      if (end === 'leave') {
        await consumed.return();
        await reading;
        expect(connection.state).toBe('open');
      } else {
        connection.abort('enough');
        expect((await verbmqErrorOf(reading)).code).toBe('ERR_VERBMQ_ABORTED');
      }
      await until(() => server.stats().running === 0);
    }
  });

  test('one that does not let its consumers go is not waited for', async () => {
    const { jobs, connection, server } = await lying({
      'queue:work': () => giving([1, 1, null, 1]),
    });
    for await (const job of jobs.consume({ leaveTimeoutMs: 20 })) {
      job.acknowledge();
      break;
    }
    let waiting: Promise<unknown>;
    {
      await using consumed = jobs.consume({ leaveTimeoutMs: 20 });
      await consumed.next();
      waiting = consumed.next();
    }
    expect(await waiting).toEqual({ done: true, value: undefined });
    const controller = new AbortController();
    const working = jobs.work(() => controller.abort(), { signal: controller.signal, leaveTimeoutMs: 20 });
    expect((await verbmqErrorOf(working)).code).toBe('ERR_VERBMQ_CLOSE_TIMEOUT');
    await until(() => server.stats().running === 0);
    expect(connection.state).toBe('open');
  });

  test('work that came before it ended is not begun: nobody can be told of it', async () => {
    const [first, ...others] = Array.from({ length: 10 }, (_, tag) => [tag, 1, null, tag]);
    const gate = new Gate();
    const { jobs, server } = await lying({
      async *'queue:work'() {
        yield first;
        await gate.opened;
        yield* others;
      },
    });
    const consumed = jobs.consume({ prefetch: 10 });
    await consumed.next();
    gate.open();
    await until(() => server.stats().handled === 1);
    await turns();
    expect((await verbmqErrorOf(consumed.next())).reason).toBe('released');
    expect(await consumed.next()).toEqual({ done: true, value: undefined });
  });

  test('one that gives work for ever is not read for ever by who leaves', async () => {
    const { jobs, server } = await lying({
      async *'queue:work'() {
        for (let tag = 1; ; tag++) yield [tag, 1, null, new Uint8Array(1000)];
      },
    });
    const consumed = jobs.consume({ leaveTimeoutMs: 20 });
    await consumed.next();
    await consumed.return();
    await until(() => server.stats().running === 0);
    expect(await consumed.next()).toEqual({ done: true, value: undefined });
  });

  test('a connection that is lost while work() leaves is told of', async () => {
    const { jobs, connection } = await lying({
      'queue:work': () => giving([1, 1, null, 1]),
    });
    const controller = new AbortController();
    const working = jobs.work(
      async () => {
        controller.abort();
        void turns(5).then(() => connection.abort('lost'));
      },
      { signal: controller.signal },
    );
    expect((await verbmqErrorOf(working)).code).toBe('ERR_VERBMQ_ABORTED');
  });

  test('jobs beyond what was asked for leave nothing at one that takes for ever', async () => {
    const [warm, count] = [10_000, 110_000];
    const { jobs } = await lying({
      async *'queue:work'(verdicts: AsyncIterable<unknown>) {
        void (async () => {
          for await (const _ of verdicts);
        })();
        for (let tag = 0; tag <= count; tag++) yield [tag, 1, null, tag];
        await new Promise(() => {});
      },
    });
    const controller = new AbortController();
    const stuck = new Gate();
    let before: InUse | undefined;
    let after: InUse | undefined;
    await jobs
      .work(
        async (body) => {
          if (body === 0) {
            await stuck.opened;
            return;
          }
          await new Promise((resolve) => setImmediate(resolve));
          if (body === warm) before = inUse();
          if (body !== count) return;
          after = inUse();
          controller.abort();
          stuck.open();
        },
        { concurrency: 2, signal: controller.signal, leaveTimeoutMs: 20 },
      )
      .catch(() => {});
    expectNoMore(before as InUse, after as InUse);
  });
});
