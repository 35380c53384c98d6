import type { Connection } from '@verbmq/core';
import { type Pubsub, pubsub } from '@verbmq/core/pubsub';
import { rpcStats } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { BODIES, ITEM_TO_CALLER, POLLUTION, packedText, RAW, RESULT } from '../rpc/frames.js';
import { verbmqErrorOf } from '../rpc/support.js';
import { take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

/** An event as msgpack has it, of a body that is given in bytes. */
const eventOf = (...body: number[]): number[] => [
  0x82,
  ...packedText('topic'),
  ...packedText('a'),
  ...packedText('body'),
  ...body,
];

/** What a broker can say in frames to its subscribers, and what becomes of it. */
export function hostileBrokers(setUp: SetUp): void {
  async function attacked(): Promise<{
    near: Connection;
    topic: Pubsub;
    raw: Connection;
    say(...frame: number[]): void;
  }> {
    const { client: near, server: raw } = await connectPair(setUp);
    const say = (...frame: number[]): void => void raw.trySend(Uint8Array.from(frame));
    return { near, topic: pubsub(near), raw, say };
  }
  const subscribed = (id: number): number[] => [ITEM_TO_CALLER, 0, id, ...packedText('msgpack')];

  describe('a broker that is an attack', () => {
    test.each(BODIES)('%s as an event, or in its place, ends that subscription alone', async (_, body) => {
      const { near, topic, raw, say } = await attacked();
      const all = [topic.subscribe('a'), topic.subscribe('a'), topic.subscribe<number>('a')] as const;
      await take(raw, 3);
      for (const id of [1, 2, 3]) say(...subscribed(id));
      say(ITEM_TO_CALLER, RAW, 1, ...eventOf(...body));
      say(ITEM_TO_CALLER, 0, 2, ...body);
      say(ITEM_TO_CALLER, RAW, 3, ...eventOf(42));
      for (const events of all.slice(0, 2))
        expect((await verbmqErrorOf(events.next())).code).toBe('ERR_VERBMQ_DECODE');
      expect((await all[2].next()).value).toMatchObject({ topic: 'a', body: 42 });
      expect(rpcStats(near).pendingCalls).toBe(1);
      expect(near.state).toBe('open');
    });

    test.each(BODIES)(
      '%s as its word that it has subscribed, or published, fails that alone',
      async (_, body) => {
        const { near, topic, raw, say } = await attacked();
        const events = topic.subscribe('a');
        const published = [verbmqErrorOf(topic.publish('a', 1)), topic.publish('a', 2)] as const;
        await take(raw, 3);
        say(ITEM_TO_CALLER, 0, 1, ...body);
        say(RESULT, 0, 2, ...body);
        say(RESULT, 0, 3, 7);
        expect((await verbmqErrorOf(events.ready)).code).toBe('ERR_VERBMQ_DECODE');
        expect((await published[0]).code).toBe('ERR_VERBMQ_DECODE');
        expect(await published[1]).toBe(7);
        expect(near.state).toBe('open');
      },
    );

    test('__proto__ in an event changes nothing', async () => {
      const { topic, raw, say } = await attacked();
      const events = topic.subscribe('a');
      await take(raw, 1);
      say(...subscribed(1));
      say(ITEM_TO_CALLER, RAW, 1, ...eventOf(...POLLUTION));
      const body = (await events.next()).value?.body;
      expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
      expect('polluted' in (body as object)).toBe(false);
      expect('polluted' in {}).toBe(false);
    });

    test('an answer to nobody ends the connection, and whatever waits', async () => {
      const { near, topic, raw, say } = await attacked();
      const subscribing = topic.subscribe('a');
      const waits = topic.subscribe('a');
      const waiting = [subscribing.ready, waits.next(), topic.publish('a', 1)].map((each) =>
        verbmqErrorOf(each),
      );
      await take(raw, 3);
      say(...subscribed(2));
      say(ITEM_TO_CALLER, 0, 99, 1);
      for (const error of await Promise.all(waiting))
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_PROTOCOL', outcome: 'unknown' });
      await near.closed;
      expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
    });

    test('events without end for one who does not read end the connection', async () => {
      const { near, topic, raw, say } = await attacked();
      const events = topic.subscribe('a');
      await take(raw, 1);
      say(...subscribed(1));
      await events.ready;
      const event = [...eventOf(0xc5, 0x20, 0), ...new Array<number>(0x2000).fill(7)];
      const frame = Uint8Array.from([ITEM_TO_CALLER, RAW, 1, ...event]);
      while (raw.state === 'open') await raw.send(frame).catch(() => {});
      expect((await near.closed).error?.code).toBe('ERR_VERBMQ_ABORTED');
      let read = 0;
      const reading = (async () => {
        for await (const _ of events) read++;
      })();
      expect((await verbmqErrorOf(reading)).code).toBe('ERR_VERBMQ_PROTOCOL');
      expect(read).toBeLessThan(60); // a window of 256 KiB, and what may be beyond it
    });
  });
}
