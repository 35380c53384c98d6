import { type PubsubEvent, pubsub, resubscribe } from '@verbmq/core/pubsub';
import { rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { expectNothingMore, expectSame, inUse } from '../support/leftovers.js';
import { type SetUp, scaled } from '../support/set-up.js';
import { brokered } from './support.js';

interface News {
  readonly n: number;
  readonly bytes?: Uint8Array;
}

/** How far those who publish may be ahead of the one who must miss nothing. */
const AHEAD = 500;

export function leftovers(setUp: SetUp, count = 100_000): void {
  const title = `after ${count.toLocaleString('en')} events`;
  test(`${title}: no event, no subscription, no call, no listener, no timer, no handle, no memory`, {
    timeout: 240_000,
  }, async () => {
    const { broker, connect } = await brokered(setUp);
    const [near, far, slow] = [await connect(), await connect(), await connect()];
    const publisher = pubsub(near);
    const subscriber = pubsub(far);
    const { signal } = new AbortController();
    const options = { signal, timeoutMs: 600_000 };
    const large = new Uint8Array(100_000);

    const round = async (events: number): Promise<void> => {
      let next = 0;
      let read = 0;
      let over = false;
      const whole = subscriber.subscribe<News>('news.#', { signal });
      await whole.ready;
      const reader = async (): Promise<void> => {
        const seen = new Set<number>();
        for await (const event of whole) {
          expectSame(event.dropped, 0);
          expectSame(event.body.bytes?.byteLength, event.body.n % 500 === 3 ? large.byteLength : undefined);
          if (event.body.n % 10 === 7) expectSame(event.headers.number, `${event.body.n}`);
          seen.add(event.body.n);
          if (++read === events) break;
        }
        expectSame(seen.size, events);
      };
      // Come and go, of which one is always behind, and those who subscribe again.
      const visitor = async (subscribe: () => AsyncIterable<PubsubEvent<News>>): Promise<void> => {
        while (!over) {
          let taken = 0;
          for await (const _ of subscribe()) if (over || ++taken === 5) break;
        }
      };
      const visits = [
        visitor(() => subscriber.subscribe<News>('news.*', { signal, maxQueued: 5 })),
        visitor(() => pubsub(slow).subscribe<News>('#', { signal, maxQueuedBytes: 1000 })),
        visitor(() => resubscribe<News>(async () => far, '*.b', { signal })),
      ];
      const publish = async (n: number): Promise<void> => {
        const topic = `news.${'abc'[n % 3]}`;
        const body = n % 500 === 3 ? { n, bytes: large } : { n };
        if (n % 10 === 5) broker.publish(topic, body);
        else if (n % 10 === 7)
          await publisher.publish(topic, body, { ...options, headers: { number: `${n}` } });
        else await publisher.publish(topic, body, options);
        if (n % 100 === 0) await verbmqErrorOf(publisher.publish(topic, () => {}, options));
      };
      const worker = async (): Promise<void> => {
        while (next < events) {
          const n = next++;
          if (n - read > AHEAD) await until(() => n - read <= AHEAD);
          await publish(n);
        }
      };
      await Promise.all([reader(), ...Array.from({ length: 16 }, worker)]);
      over = true;
      let left = false;
      const leaving = Promise.all(visits).finally(() => {
        left = true;
      });
      await until(() => {
        if (!left) broker.publish('news.b', { n: -1 }); // for those who still wait for one
        return left;
      });
      await leaving;
      await until(() => broker.stats().subscriptions === 0);
    };
    await round(scaled(10_000));
    const before = inUse();
    const { published } = broker.stats();
    await round(scaled(count));
    expect(broker.stats().published).toBeGreaterThanOrEqual(published + scaled(count));
    expect(broker.stats()).toMatchObject({ subscriptions: 0, heldBytes: 0 });
    for (const connection of [near, far, slow]) {
      await until(() => rpcStats(connection).pendingCalls === 0);
      expect(rpcStats(connection)).toMatchObject({ pendingCalls: 0, runningCalls: 0, backlogBytes: 0 });
    }
    expectNothingMore(before, signal);
  });
}
