import { pubsub } from '@verbmq/core/pubsub';
import fc from 'fast-check';
import { expect } from 'vitest';
import { until } from '../rpc/support.js';
import { fuzz } from '../support/fuzz.js';
import { repeatedPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { anything, attackedBy } from './attacked.js';

/**
 * Publications and subscriptions of all kinds, of which most make no sense.
 * @param share of the time that fuzz tests take
 */
export function pubsubFuzz(setUp: SetUp, share: number): void {
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
      const { broker, server, raw, far } = await attackedBy(connect, { maxSubscriptions: 6 });
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
    share,
  );
}
