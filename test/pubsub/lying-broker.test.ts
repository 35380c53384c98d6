import { MsgpackCodec } from '@verbmq/core/codec';
import { pubsub } from '@verbmq/core/pubsub';
import { serve } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { connectPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';

const packed = (value: unknown): Uint8Array => Uint8Array.from(new MsgpackCodec().encode(value, 0));

describe('a broker that lies to a subscriber', () => {
  test.each([
    ['an event', packed({ topic: 'a', body: 1 })],
    ['nothing', null],
    ['another codec', 'json'],
  ])('%s in place of its word that it has subscribed ends that subscription alone', async (_, item) => {
    const { client, server: far } = await connectPair(memorySetUp());
    const server = serve(far, {
      async *'pubsub:subscribe'() {
        yield item;
        await new Promise(() => {});
      },
    });
    const events = pubsub(client).subscribe('a');
    for (const promise of [events.ready, events.next()])
      expect((await verbmqErrorOf(promise)).code).toMatch(/ERR_VERBMQ_(PROTOCOL|DECODE)/);
    await until(() => server.stats().running === 0);
    expect(client.state).toBe('open');
  });

  test.each([
    ['nothing', null],
    ['a text', 'x'],
    ['less than nothing left out', -1],
    ['no number left out', Number.NaN],
    ['an event that is nothing', packed(null)],
    ['an event without a topic', packed({ body: 1 })],
    ['headers that are none', packed({ topic: 'a', body: 1, headers: { a: 1 } })],
    ['bytes that are no event', Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff)],
  ])('%s ends that subscription alone', async (_, item) => {
    const { client, server: far } = await connectPair(memorySetUp());
    const server = serve(far, {
      async *'pubsub:subscribe'() {
        yield 'msgpack';
        yield item;
        await new Promise(() => {});
      },
    });
    const events = pubsub(client).subscribe('a');
    expect((await verbmqErrorOf(events.next())).code).toMatch(/ERR_VERBMQ_(PROTOCOL|DECODE)/);
    await until(() => server.stats().running === 0);
    expect(client.state).toBe('open');
  });
});
