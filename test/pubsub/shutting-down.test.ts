import type { Connection } from '@verbmq/core';
import { pubsub, resubscribe } from '@verbmq/core/pubsub';
import { describe, expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import type { SetUp } from '../support/set-up.js';
import { onEachTransport } from '../support/transports/each.js';
import { brokered } from './support.js';

/** What subscribes again when the server of its broker ends in order. */
function shuttingDown(name: string, setUp: SetUp): void {
  describe(`a broker that shuts down, over ${name}`, () => {
    test.each(['lets its subscribers go', 'gives them up'])(
      'resubscribe goes on with another broker when the first one shuts down, and %s',
      async (how) => {
        const brokers = [await brokered(setUp), await brokered(setUp)] as const;
        const connections: Connection[] = [];
        const events = resubscribe<number>(async () => {
          const connection = await (brokers[connections.length] as (typeof brokers)[0]).connect();
          connections.push(connection);
          return connection;
        }, 'a');
        const expectEvent = async (which: 0 | 1, gap: boolean): Promise<void> => {
          const { broker } = brokers[which];
          const next = events.next();
          await until(() => broker.stats().subscriptions === 1);
          expect(broker.publish('a', which)).toBe(1);
          expect((await next).value).toMatchObject({ body: which, gap });
        };
        await expectEvent(0, false);
        const reading = events.next();
        if (how === 'lets its subscribers go') brokers[0].broker.releaseSubscribers();
        await brokers[0].server.close(1);
        await Promise.race([until(() => brokers[1].broker.stats().subscriptions === 1), reading]);
        brokers[1].broker.publish('a', 7);
        expect((await reading).value).toMatchObject({ body: 7, gap: true });
        await expectEvent(1, false);
        await events.return();
      },
    );

    test('what subscribes again waits for the end of a connection on which nothing more comes, or leaves', async () => {
      const { broker, connect } = await brokered(setUp);
      const connection = await connect();
      let asked = 0;
      const controller = new AbortController();
      const events = resubscribe(
        async () => {
          asked++;
          return connection;
        },
        'a',
        { signal: controller.signal },
      );
      const reading = verbmqErrorOf(events.next());
      await until(() => broker.stats().subscriptions === 1);
      broker.releaseSubscribers();
      await pubsub(connection).publish('a', 1); // behind the end of the subscription
      await turns(5);
      expect(asked).toBe(1);
      controller.abort('enough');
      expect((await reading).code).toBe('ERR_VERBMQ_CANCELLED');
    });
  });
}

await onEachTransport(shuttingDown);
