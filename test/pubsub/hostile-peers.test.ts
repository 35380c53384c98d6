import type { Connection } from '@verbmq/core';
import { PubsubBroker, type PubsubBrokerOptions, pubsub } from '@verbmq/core/pubsub';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CREDIT, ERROR, METADATA, named, packedText, RESULT, STREAM_OUT, text } from '../rpc/frames.js';
import { until } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import { fuzz } from '../support/fuzz.js';
import { take } from '../support/messages.js';
import { connectPair, repeatedPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';

const setUp = memorySetUp();

/** A broker, and a connection to it on which anything can be said. */
async function attacked(
  options?: PubsubBrokerOptions,
  connect: ReturnType<typeof repeatedPair> = () => connectPair(setUp),
) {
  const broker = new PubsubBroker(options);
  const { client: raw, server: far } = await connect();
  const server = serve(far, broker.service);
  return { broker, server, raw, far };
}

/** What anybody can call, with anything. */
type Anything = Record<
  'pubsub:publish' | 'pubsub:subscribe',
  ((body: unknown) => Promise<unknown>) & {
    stream(body: unknown, options: { metadata: Record<string, string> }): AsyncIterableIterator<unknown>;
  }
>;
const anything = (connection: Connection): Anything => client(connection) as unknown as Anything;

const subscription = (
  pattern: string,
  maxQueued = '100',
  whenSlow = 'drop-oldest',
): Record<string, string> => ({
  pattern,
  maxQueued,
  whenSlow,
});

describe('a publication that is an attack', () => {
  const bodies: [string, number[]][] = [
    ['deep nesting', [...new Array<number>(10_000).fill(0x91), 1]],
    ['an array of 4 billion', [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ['a type of the codec', [0xd4, 0x72, 0x40, 0x90]],
  ];
  test.each(bodies)('%s fails that call alone, and reaches nobody', async (_, body) => {
    const { broker, raw } = await attacked();
    await take(raw, 1); // the names of the methods
    const publication = [0x82, ...packedText('topic'), ...packedText('a'), ...packedText('body')];
    raw.trySend(Uint8Array.from(named(1, 'pubsub:publish', 0, ...publication, ...body)));
    raw.trySend(Uint8Array.from(named(2, 'pubsub:publish', 0, ...publication, 7)));
    const [refusal, answer] = await take(raw, 2);
    expect([...(refusal as Uint8Array).subarray(0, 3)]).toEqual([ERROR, 0, 1]);
    expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_DECODE');
    expect([...(answer as Uint8Array).subarray(0, 3)]).toEqual([RESULT, 0, 2]);
    expect(broker.stats()).toMatchObject({ published: 1 });
  });

  test('__proto__ as a topic, a pattern or in a body is a word like any other', async () => {
    const { raw } = await attacked();
    const news = pubsub(raw);
    const events = news.subscribe<object>('__proto__.*');
    await events.ready;
    await news.publish('__proto__.constructor', JSON.parse('{"__proto__": {"polluted": true}, "n": 1}'));
    const { value } = await events.next();
    expect(value).toMatchObject({ topic: '__proto__.constructor', body: { n: 1 } });
    expect('polluted' in {}).toBe(false);
  });
});

describe('a subscriber that is an attack', () => {
  test('one that grants itself credit without end gets no more than was published', async () => {
    const { broker, raw, far } = await attacked();
    const metadata = Object.entries(subscription('#')).flatMap(([name, value]) => [
      ...text(name),
      ...text(value),
    ]);
    raw.trySend(Uint8Array.from(named(1, 'pubsub:subscribe', METADATA | STREAM_OUT, 3, ...metadata)));
    for (let i = 0; i < 1000; i++) raw.trySend(Uint8Array.from([CREDIT, 0, 1, 0xff, 0xff, 0xff, 0x7f]));
    await until(() => broker.stats().subscriptions === 1 || raw.state !== 'open');
    for (let n = 0; n < 10_000; n++) broker.publish('a', new Uint8Array(1000));
    await turns();
    expect(rpcStats(far).backlogBytes).toBeLessThan(64 * 1024 * 1024);
    expect(broker.stats().heldBytes).toBeLessThan(101 * 1100); // the 100 that may wait
    raw.abort('gone');
    await far.closed;
    await until(() => broker.stats().subscriptions === 0);
  });

  test('patterns that match everything in many ways get each event once', async () => {
    const { broker, raw } = await attacked();
    const events = pubsub(raw).subscribe<number>(new Array<string>(32).fill('#').join('.'));
    await events.ready;
    const topic = new Array<string>(32).fill('a').join('.');
    expect(broker.publish(topic, 1)).toBe(1);
    expect(broker.publish(topic, 2)).toBe(1);
    expect((await events.next()).value?.body).toBe(1);
    expect((await events.next()).value?.body).toBe(2);
  });
});

describe('subscribers that do not read', () => {
  const silent = async (raw: Connection, count: number, whenSlow: string, maxQueuedBytes?: string) => {
    for (let n = 0; n < count; n++) {
      const events = anything(raw)['pubsub:subscribe'].stream(undefined, {
        metadata: {
          ...subscription(`${n}.#`, '99999999', whenSlow),
          ...(maxQueuedBytes && { maxQueuedBytes }),
        },
      });
      await events.next();
    }
  };

  test.each(['drop-oldest', 'drop-newest', 'disconnect'])(
    'hold no more bytes than they may: %s',
    async (whenSlow) => {
      const { broker, raw } = await attacked({ maxQueuedBytes: 300_000, maxHeldBytes: 1_000_000 });
      await silent(raw, 10, whenSlow, String(2 ** 53 - 1));
      let most = 0;
      for (let n = 0; n < 2000; n++) {
        broker.publish(`${n % 10}.a`, new Uint8Array(10_000));
        most = Math.max(most, broker.stats().heldBytes);
        if (n % 50 === 0) await turns(1);
      }
      expect(most).toBeGreaterThan(whenSlow === 'disconnect' ? 300_000 : 900_000);
      expect(most).toBeLessThanOrEqual(1_000_000);
      raw.abort('enough');
      await until(() => broker.stats().subscriptions === 0);
      expect(broker.stats().heldBytes).toBe(0);
    },
  );

  test('do not keep events from those who do', async () => {
    const { broker, raw } = await attacked({ maxHeldBytes: 100_000 });
    const { client: near, server: far } = await connectPair(setUp);
    serve(far, broker.service);
    const events = pubsub(near).subscribe<Uint8Array>('#');
    await events.ready;
    await silent(raw, 10, 'drop-newest');
    for (let n = 0; n < 500; n++) {
      broker.publish(`${n % 10}.a`, new Uint8Array(10_000).fill(n % 256));
      expect((await events.next()).value).toMatchObject({ dropped: 0 });
    }
    expect(broker.stats().dropped).toBeGreaterThan(0);
    expect(broker.stats().heldBytes).toBeLessThanOrEqual(100_000);
  });

  test('share the memory of an event that waits for all of them', async () => {
    const { broker, raw } = await attacked();
    for (let n = 0; n < 20; n++) {
      await anything(raw)
        ['pubsub:subscribe'].stream(undefined, { metadata: subscription('a') })
        .next();
    }
    for (let n = 0; n < 90; n++) broker.publish('a', new Uint8Array(10_000));
    expect(broker.stats().heldBytes).toBeLessThan(90 * 10_100);
  });
});

describe('anything at all', () => {
  const connect = repeatedPair(setUp);
  const topic = fc.constantFrom(
    'a',
    'a.b',
    'a.b.c',
    '',
    '.',
    'a..b',
    '#',
    'a.*',
    '__proto__',
    'x'.repeat(300),
  );
  const pattern = fc.constantFrom(
    'a',
    'a.*',
    '#',
    '*.#.b',
    '',
    '.',
    'a..b',
    '#.#',
    '__proto__',
    'x.'.repeat(200),
  );
  const publish = fc.record({
    kind: fc.constant('publish' as const),
    body: fc.oneof(fc.record({ topic, body: fc.jsonValue() }), fc.jsonValue()),
  });
  const subscribe = fc.record({
    kind: fc.constant('subscribe' as const),
    metadata: fc.record(
      {
        pattern,
        maxQueuedBytes: fc.constantFrom('1', '2000', '0', 'x', ''),
        maxQueued: fc.constantFrom('1', '2', '99999999', '0', '-1', 'x', ''),
        whenSlow: fc.constantFrom('drop-oldest', 'drop-newest', 'disconnect', 'never', ''),
      },
      { requiredKeys: [] },
    ),
    reads: fc.integer({ min: 0, max: 5 }),
    leaves: fc.boolean(),
  });

  fuzz(
    'subscriptions end with their connection, and others get their events meanwhile',
    fc.asyncProperty(fc.array(fc.oneof(publish, subscribe), { maxLength: 15 }), async (steps) => {
      const { broker, server, raw, far } = await attacked({ maxSubscriptions: 6 }, connect);
      const honest = pubsub(raw).subscribe<number>('honest.#');
      await honest.ready;
      const api = anything(raw);
      const loose: Promise<unknown>[] = [];
      for (const step of steps) {
        if (step.kind === 'publish') {
          loose.push(api['pubsub:publish'](step.body));
          continue;
        }
        const events = api['pubsub:subscribe'].stream(undefined, {
          metadata: step.metadata as Record<string, string>,
        });
        for (let i = 0; i < step.reads; i++) loose.push(events.next());
        if (step.leaves) loose.push(events.return?.() ?? Promise.resolve());
      }
      for (const promise of loose) promise.catch(() => {});
      broker.publish('honest.event', 1);
      expect((await honest.next()).value).toMatchObject({ topic: 'honest.event', body: 1 });
      raw.abort('enough');
      await Promise.all([far.closed, Promise.allSettled(loose)]);
      await until(() => server.stats().running === 0);
      expect(broker.stats()).toMatchObject({ subscriptions: 0, heldBytes: 0 });
    }),
    1 / 3,
  );
});
