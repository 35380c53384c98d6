import type { Connection } from '@verbmq/core';
import { type PubsubBrokerOptions, type PubsubEvent, pubsub } from '@verbmq/core/pubsub';
import { rpcStats, serve } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import {
  BODIES,
  brokenText,
  CREDIT,
  ERROR,
  ITEM_TO_CALLER,
  METADATA,
  named,
  POLLUTION,
  packedText,
  RESULT,
  STREAM_OUT,
  text,
} from '../rpc/frames.js';
import { until } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import { take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { type Attacked, anything, attackedBy } from './attacked.js';

const subscription = (
  pattern: string,
  maxQueued = '100',
  whenSlow = 'drop-oldest',
): Record<string, string> => ({
  pattern,
  maxQueued,
  whenSlow,
});

/** The same for all topics, as it stands in a frame. */
const METADATA_OF_ALL = [
  3,
  ...Object.entries(subscription('#')).flatMap(([name, value]) => [...text(name), ...text(value)]),
];

/** What a peer of a broker can try, and what becomes of it. */
export function hostilePeers(setUp: SetUp): void {
  const attacked = (options?: PubsubBrokerOptions): Promise<Attacked> =>
    attackedBy(() => connectPair(setUp), options);

  describe('a publication that is an attack', () => {
    test.each(BODIES)('%s fails that call alone, and reaches nobody', async (_, body) => {
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
      const { broker, raw } = await attacked();
      const { client: near, server: far } = await connectPair(setUp);
      serve(far, broker.service);
      const events = pubsub(near).subscribe<object>('__proto__.*');
      await events.ready;
      await take(raw, 1); // the names of the methods
      // As bytes, for the codec gives that key another name when it encodes.
      const publication = [
        0x82,
        ...packedText('topic'),
        ...packedText('__proto__.constructor'),
        ...packedText('body'),
      ];
      raw.trySend(Uint8Array.from(named(1, 'pubsub:publish', 0, ...publication, ...POLLUTION)));
      expect([...((await take(raw, 1))[0] as Uint8Array)]).toEqual([RESULT, 0, 1, 1]);
      const { topic, body } = (await events.next()).value as PubsubEvent<object>;
      expect(topic).toBe('__proto__.constructor');
      expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
      expect('polluted' in body).toBe(false);
      expect('polluted' in {}).toBe(false);
    });
  });

  test('an event is no longer than one may be, however it was sent: else it would end all subscribers', async () => {
    const { broker, raw } = await attacked({ maxEventBytes: 10_000 });
    const { client: near, server: far } = await connectPair(setUp);
    serve(far, broker.service);
    const events = pubsub(near, { maxBodyBytes: 10_000 }).subscribe<string>('a');
    await events.ready;
    await take(raw, 1); // the names of the methods
    const publication = [0x82, ...packedText('topic'), ...packedText('a'), ...packedText('body')];
    for (const [i, bytes] of [5000, 3000].entries())
      raw.trySend(Uint8Array.from(named(i + 1, 'pubsub:publish', 0, ...publication, ...brokenText(bytes))));
    const [refusal, answer] = await take(raw, 2);
    expect((refusal as Uint8Array)[0]).toBe(ERROR);
    expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_MESSAGE_TOO_LARGE');
    expect((answer as Uint8Array)[0]).toBe(RESULT);
    expect((await events.next()).value).toMatchObject({ body: '\ufffd'.repeat(3000), dropped: 0 });
    expect(() => broker.publish('a', new Uint8Array(12_000))).toThrow(/maxEventBytes/);
  });

  describe('a subscriber that is an attack', () => {
    test.each(BODIES)('%s fails its call alone, and nobody has subscribed', async (_, body) => {
      const { broker, raw, server } = await attacked();
      await take(raw, 1); // the names of the methods
      raw.trySend(
        Uint8Array.from(named(1, 'pubsub:subscribe', METADATA | STREAM_OUT, ...METADATA_OF_ALL, ...body)),
      );
      raw.trySend(Uint8Array.from(named(2, 'pubsub:subscribe', METADATA | STREAM_OUT, ...METADATA_OF_ALL)));
      const [refusal, item] = await take(raw, 2);
      expect([...(refusal as Uint8Array).subarray(0, 3)]).toEqual([ERROR, 0, 1]);
      expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_DECODE');
      expect([...(item as Uint8Array).subarray(0, 3)]).toEqual([ITEM_TO_CALLER, 0, 2]);
      expect(broker.stats()).toMatchObject({ subscriptions: 1 });
      expect(server.stats()).toMatchObject({ running: 1, failed: 1 });
    });

    test('one that grants itself credit without end gets no more than was published', async () => {
      const { broker, raw, far } = await attacked();
      raw.trySend(Uint8Array.from(named(1, 'pubsub:subscribe', METADATA | STREAM_OUT, ...METADATA_OF_ALL)));
      for (let i = 0; i < 1000; i++) raw.trySend(Uint8Array.from([CREDIT, 0, 1, 0xff, 0xff, 0xff, 0x7f]));
      await until(() => broker.stats().subscriptions === 1 || raw.state !== 'open');
      for (let n = 0; n < 10_000; n++) broker.publish('a', new Uint8Array(1000));
      await turns();
      expect(rpcStats(far).backlogBytes).toBeLessThan(64 * 1024 * 1024);
      expect(broker.stats().heldBytes).toBeLessThan(101 * 1500); // the 100 that may wait
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
      expect(broker.stats().heldBytes).toBeLessThan(90 * 12_000); // with the 1,800 places in their queues
    });
  });
}
