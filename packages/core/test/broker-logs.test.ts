import { expect, test } from 'vitest';
import { recordedLog } from '../../../test/support/recorded-log.js';
import { uncaughtException } from '../../../test/support/uncaught.js';
import { PubsubBroker } from '../dist/pubsub/broker.js';
import { QueueBroker } from '../dist/queue/broker.js';

/** Works at a queue with these verdicts, which may end by an error, until the consumer has left. */
async function workWith(broker: QueueBroker, source: AsyncIterable<unknown>): Promise<void> {
  const context = { metadata: { queue: 'jobs', prefetch: '5' } };
  const deliveries = broker.service['queue:work'](source as never, context as never);
  for await (const _ of deliveries);
}

test('a queue broker logs what no caller gets to know of, and goes on when onDead throws', async () => {
  const { lines, logger } = recordedLog({ service: 'shop' });
  const broker = new QueueBroker({
    logger,
    onDead: () => {
      throw new Error('no disk');
    },
  });
  const uncaught = uncaughtException();
  await broker.push('jobs', 1);
  const cut = new Error('the call has ended');
  await workWith(
    broker,
    (async function* () {
      yield { tag: 1, verdict: 'never' };
      throw cut;
    })(),
  );
  await workWith(
    broker,
    (async function* () {
      yield { tag: 1, verdict: 'perhaps' };
    })(),
  );
  expect(await uncaught).toMatchObject({ message: 'no disk' });
  const common = { service: 'shop', part: 'queue', queue: 'jobs' };
  expect(lines).toMatchObject([
    { ...common, level: 'warn', message: 'work was given up' },
    { ...common, level: 'debug', err: cut },
    { ...common, level: 'warn', message: 'a consumer was let go: what it said is no verdict' },
  ]);
  expect(broker.stats('jobs')).toMatchObject({ dead: 1, consumers: 0 });
});

test('a pubsub broker logs whom it disconnects', () => {
  const { lines, logger } = recordedLog({ service: 'shop' });
  const broker = new PubsubBroker({ logger });
  const metadata = { pattern: 'a.*', maxQueued: '1', whenSlow: 'disconnect' };
  broker.service['pubsub:subscribe'](undefined, { metadata } as never);
  broker.publish('a.b', 1);
  broker.publish('a.b', 2);
  expect(lines).toMatchObject([
    { part: 'pubsub', pattern: 'a.*', level: 'warn', message: 'a slow subscriber was disconnected' },
  ]);
});
