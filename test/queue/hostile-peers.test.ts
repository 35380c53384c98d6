// Longer than 300 lines: it is one list of what a peer can try.
import type { Connection } from '@verbmq/core';
import { QueueBroker, type QueueBrokerOptions, queue } from '@verbmq/core/queue';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ERROR,
  ITEM,
  METADATA,
  named,
  packedText,
  RESULT,
  STREAM_IN,
  STREAM_OUT,
  text,
} from '../rpc/frames.js';
import { collect, until } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import { fuzz } from '../support/fuzz.js';
import { take } from '../support/messages.js';
import { connectPair, repeatedPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';

const setUp = memorySetUp();

/** A broker, and a connection to it on which anything can be said. */
async function attacked(
  options?: QueueBrokerOptions,
  connect: ReturnType<typeof repeatedPair> = () => connectPair(setUp),
) {
  const broker = new QueueBroker(options);
  const { client: raw, server: far } = await connect();
  const server = serve(far, broker.service);
  return { broker, server, raw, far };
}

/** The same queues from a connection of somebody who behaves. */
async function honest(broker: QueueBroker): Promise<Connection> {
  const { client: near, server: far } = await connectPair(setUp);
  serve(far, broker.service);
  return near;
}

/** What anybody can call, with anything. */
type Anything = Record<
  'queue:push' | 'queue:work',
  ((body: unknown) => Promise<unknown>) & {
    stream(body: unknown, options: { metadata: Record<string, string> }): AsyncIterableIterator<unknown>;
  }
>;
const anything = (connection: Connection): Anything => client(connection) as unknown as Anything;

describe('a push that is an attack', () => {
  const frames: [string, number[]][] = [
    ['deep nesting', [...new Array<number>(10_000).fill(0x91), 1]],
    ['an array of 4 billion', [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ['a type of the codec', [0xd4, 0x72, 0x40, 0x90]],
  ];
  test.each(frames)('%s fails that call alone, and nothing is queued', async (_, body) => {
    const { broker, raw } = await attacked();
    await take(raw, 1); // the names of the methods
    raw.trySend(
      Uint8Array.from(
        named(
          1,
          'queue:push',
          0,
          0x82,
          ...packedText('queue'),
          ...packedText('q'),
          ...packedText('body'),
          ...body,
        ),
      ),
    );
    raw.trySend(
      Uint8Array.from(
        named(2, 'queue:push', 0, 0x82, ...packedText('queue'), ...packedText('q'), ...packedText('body'), 7),
      ),
    );
    const [refusal, answer] = await take(raw, 2);
    expect([...(refusal as Uint8Array).subarray(0, 3)]).toEqual([ERROR, 0, 1]);
    expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_DECODE');
    expect([...(answer as Uint8Array)].slice(0, 3)).toEqual([RESULT, 0, 2]);
    expect(broker.stats('q')).toMatchObject({ ready: 1, pushed: 1 });
  });

  test('__proto__ as a queue or in a body is a word like any other', async () => {
    const { broker, raw } = await attacked();
    const jobs = queue<object>(raw, '__proto__');
    await jobs.push(JSON.parse('{"__proto__": {"polluted": true}, "n": 1}'));
    for await (const job of jobs.consume()) {
      expect(job.body).toMatchObject({ n: 1 });
      job.acknowledge();
      break;
    }
    expect('polluted' in {}).toBe(false);
    expect(broker.stats('__proto__')).toMatchObject({ acknowledged: 1 });
  });
});

describe('a consumer that is an attack', () => {
  test('verdicts on work that nobody gave it, or twice, change nothing', async () => {
    const { broker, raw } = await attacked();
    await broker.push('q', 'first');
    await broker.push('q', 'second');
    async function* verdicts(): AsyncGenerator<unknown> {
      for (const tag of [-1, 0, 2, 99, 2 ** 53, 'x', null]) yield { tag, verdict: 'done' };
      for (let i = 0; i < 5; i++) yield { tag: 1, verdict: 'done' };
      await until(() => broker.stats('q')?.acknowledged === 1);
    }
    const options = { metadata: { queue: 'q', prefetch: '1' } };
    await collect(anything(raw)['queue:work'].stream(verdicts(), options));
    expect(broker.stats('q')).toMatchObject({ acknowledged: 1, ready: 1, unacknowledged: 0, consumers: 0 });
    expect(await first(queue(await honest(broker), 'q'))).toBe('second');
  });

  test('verdicts without end take no memory, and keep nobody waiting', async () => {
    const { broker, raw, far } = await attacked();
    const metadata = [2, ...text('queue'), ...text('q'), ...text('prefetch'), ...text('1')];
    raw.trySend(Uint8Array.from(named(1, 'queue:work', METADATA | STREAM_IN | STREAM_OUT, ...metadata)));
    const item = Uint8Array.from([
      ITEM,
      0,
      1,
      0x82,
      ...packedText('tag'),
      9,
      ...packedText('verdict'),
      ...packedText('done'),
    ]);
    for (let i = 0; i < 20_000 && raw.state === 'open'; i++)
      if (!raw.trySend(item)) await raw.send(item).catch(() => {});
    await broker.push('q', 1);
    expect(rpcStats(far).backlogBytes).toBeLessThan(1_000_000);
    expect(await first(queue(await honest(broker), 'other', { timeoutMs: 5000 }), broker)).toBe('here');
  });

  test('one that takes work and never says a word has no more of it than its prefetch', async () => {
    const { broker, raw, far } = await attacked();
    for (let n = 0; n < 1000; n++) await broker.push('q', n);
    const greedy = anything(raw)['queue:work'].stream(
      (async function* () {
        await new Promise(() => {});
      })(),
      { metadata: { queue: 'q', prefetch: '3' } },
    );
    for (let n = 0; n < 3; n++) await greedy.next();
    expect(broker.stats('q')).toMatchObject({ unacknowledged: 3, ready: 997 });
    raw.abort('gone');
    await far.closed;
    await until(() => broker.stats('q')?.ready === 1000);
    expect(broker.stats('q')).toMatchObject({ consumers: 0, unacknowledged: 0 });
  });
});

describe('a peer that pushes without end', () => {
  test.each(['refuse', 'wait', 'drop-oldest', 'drop-newest'] as const)(
    'takes no more memory than was granted: %s',
    async (whenFull) => {
      const { broker, raw } = await attacked({ maxReadyBytes: 300_000, maxHeldBytes: 1_000_000, whenFull });
      const greedy = anything(raw)['queue:work'].stream(
        (async function* () {
          await new Promise(() => {});
        })(),
        { metadata: { queue: 'held', prefetch: '65536' } },
      );
      greedy.next().catch(() => {});
      await until(() => broker.stats('held')?.consumers === 1);
      const loose: Promise<unknown>[] = [];
      const refusals = new Set<unknown>();
      let most = 0;
      for (let n = 0; n < 500; n++) {
        const name = ['held', 'a', 'b', 'c', 'd'][n % 5];
        const push = anything(raw)['queue:push']({ queue: name, body: new Uint8Array(10_000) });
        push.then((refusal) => refusals.add((refusal as { refused?: string })?.refused)).catch(() => {});
        loose.push(push);
        if (n % 20 === 0) await turns(1);
        most = Math.max(most, broker.stats().heldBytes);
      }
      await until(() => refusals.size > 1 || whenFull.startsWith('drop'));
      await turns();
      expect(most).toBeGreaterThan(900_000);
      expect(most).toBeLessThanOrEqual(1_000_000);
      for (const name of ['a', 'b', 'c', 'd'])
        expect(broker.stats(name)?.readyBytes).toBeLessThanOrEqual(300_000);
      expect(broker.stats('held')?.unacknowledged).toBeGreaterThan(10);
      expect(refusals).toContain('memory');
      raw.abort('enough');
      await until(() => broker.stats().consumers === 0);
      for (const name of ['held', 'a', 'b', 'c', 'd']) {
        const far = await honest(broker);
        const ready = broker.stats(name)?.ready ?? 0;
        let taken = 0;
        if (ready > 0) {
          for await (const job of queue(far, name).consume({ prefetch: 100 })) {
            job.acknowledge();
            if (++taken === ready) break;
          }
        }
      }
      expect(broker.stats().heldBytes).toBe(0);
    },
  );

  test('bodies count as what they take, not as what they were sent as', async () => {
    const { broker, raw } = await attacked({ maxReadyBytes: 1_000_000 });
    const push = (body: unknown) => anything(raw)['queue:push']({ queue: 'q', body });
    expect(await push(new Array<null>(100_000).fill(null))).toMatchObject({ refused: 'queue-full' });
    expect(
      await push(Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`${n}`, []]))),
    ).toMatchObject({ refused: 'queue-full' });
    expect(await push('x'.repeat(600_000))).toMatchObject({ refused: 'queue-full' });
    expect(await push('x'.repeat(400_000))).toBe(undefined);
    expect(broker.stats('q')?.readyBytes).toBeGreaterThan(400_000);
  });

  test('cannot use up the names of queues', async () => {
    const { broker, raw } = await attacked({ maxQueues: 10 });
    for (let n = 0; n < 100; n++) {
      await queue<number>(raw, `q${n}`).push(n);
      expect(await first(queue(raw, `q${n}`))).toBe(n);
    }
    const api = anything(raw);
    for (let n = 0; n < 100; n++) {
      // Refused after the name was taken.
      const stream = api['queue:work'].stream(undefined, { metadata: { queue: `x${n}`, prefetch: '0' } });
      await expect(stream.next()).rejects.toThrow();
    }
    expect(broker.stats().queues).toBe(10);
    expect(await first(queue(await honest(broker), 'mine'), broker)).toBe('here');
  });
});

describe('anything at all', () => {
  const connect = repeatedPair(setUp);
  const name = fc.constantFrom('a', 'b', '', '__proto__', 'x'.repeat(300));
  const verdict = fc.oneof(
    fc.record({
      tag: fc.integer({ min: -1, max: 9 }),
      verdict: fc.constantFrom('done', 'again', 'never', 'no'),
    }),
    fc.jsonValue(),
  );
  const push = fc.record({
    kind: fc.constant('push' as const),
    body: fc.oneof(fc.record({ queue: name, body: fc.jsonValue() }), fc.jsonValue()),
  });
  const work = fc.record({
    kind: fc.constant('work' as const),
    metadata: fc.record(
      { queue: name, prefetch: fc.constantFrom('1', '2', '65536', '0', '-1', '1e9', 'x', '') },
      { requiredKeys: [] },
    ),
    verdicts: fc.array(verdict, { maxLength: 12 }),
    reads: fc.integer({ min: 0, max: 5 }),
  });

  fuzz(
    'queues stay within their bounds, give back what a consumer held, and serve others',
    fc.asyncProperty(fc.array(fc.oneof(push, work), { maxLength: 15 }), async (steps) => {
      const { broker, server, raw, far } = await attacked(
        { maxReady: 5, maxQueues: 4, maxAttempts: 3, maxReadyBytes: 2000, maxHeldBytes: 4000 },
        connect,
      );
      const api = anything(raw);
      const loose: Promise<unknown>[] = [];
      for (const step of steps) {
        if (step.kind === 'push') {
          loose.push(api['queue:push'](step.body));
          continue;
        }
        const source = (async function* () {
          yield* step.verdicts;
        })();
        const metadata = step.metadata as Record<string, string>;
        const deliveries = api['queue:work'].stream(source, { metadata });
        for (let i = 0; i < step.reads; i++) loose.push(deliveries.next());
      }
      for (const promise of loose) promise.catch(() => {});
      await broker.push('honest', 1);
      expect(await first(queue(raw, 'honest'))).toBe(1);
      raw.abort('enough');
      await Promise.all([far.closed, Promise.allSettled(loose)]);
      await until(() => server.stats().running === 0);
      let waiting = 0;
      for (const queueName of ['a', 'b', '__proto__', 'honest']) {
        const stats = broker.stats(queueName);
        if (stats === undefined) continue;
        expect(stats).toMatchObject({ consumers: 0, unacknowledged: 0 });
        expect(stats.ready + stats.acknowledged + stats.dead).toBe(stats.pushed);
        expect(stats.readyBytes > 0).toBe(stats.ready > 0);
        waiting += stats.readyBytes;
      }
      expect(broker.stats().heldBytes).toBe(waiting);
      expect(waiting).toBeLessThanOrEqual(4000);
    }),
    1 / 3,
  );
});

/** The first piece of work, acknowledged. With a broker, it is pushed before. */
async function first(jobs: ReturnType<typeof queue<unknown>>, broker?: QueueBroker): Promise<unknown> {
  if (broker !== undefined) await broker.push(jobs.name, 'here');
  for await (const job of jobs.consume()) {
    job.acknowledge();
    return job.body;
  }
  throw new Error('the queue ended');
}
