import { queue } from '@verbmq/core/queue';
import fc from 'fast-check';
import { expect } from 'vitest';
import { until } from '../rpc/support.js';
import { fuzz } from '../support/fuzz.js';
import { repeatedPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { anything, attackedBy, first } from './attacked.js';

/**
 * Pushes and consumers of all kinds, of which most make no sense.
 * @param share of the time that fuzz tests take
 */
export function queueFuzz(setUp: SetUp, share: number): void {
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
      const { broker, server, raw, far } = await attackedBy(connect, {
        maxReady: 5,
        maxQueues: 4,
        maxAttempts: 3,
        maxReadyBytes: 2000,
        maxHeldBytes: 4000,
      });
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
    share,
  );
}
