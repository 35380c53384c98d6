import { queue } from '@verbmq/core/queue';
import { type Service, serve } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { from, until, verbmqErrorOf } from '../rpc/support.js';
import { connectPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';

/** A client's queue at a broker that does what `service` says. */
async function lying(service: Service) {
  const { client, server } = await connectPair(memorySetUp());
  return { jobs: queue<unknown>(client, 'jobs'), server: serve(server, service), connection: client };
}

async function* giving(...deliveries: unknown[]): AsyncGenerator<unknown> {
  yield* deliveries;
  await new Promise(() => {}); // and never ends
}

describe('a broker that lies to a client of its queues', () => {
  test.each([
    ['nothing', null],
    ['a number', 5],
    ['no tag', { attempt: 1, body: 1 }],
    ['a bad tag', { tag: 'x', attempt: 1, body: 1 }],
    ['a bad attempt', { tag: 1, attempt: null, body: 1 }],
  ])('%s as work ends that consumer alone', async (_, delivery) => {
    const { jobs, server, connection } = await lying({ 'queue:work': () => giving(delivery) });
    const read = async () => {
      for await (const _ of jobs.consume());
    };
    for (const ended of [read(), jobs.work(() => {})])
      expect((await verbmqErrorOf(ended)).code).toBe('ERR_VERBMQ_PROTOCOL');
    await until(() => server.stats().running === 0);
    expect(connection.state).toBe('open');
  });

  test('an answer to a push that is none fails that push', async () => {
    const answers = [null, 5, { refused: 1, message: 'x' }, undefined];
    const { jobs } = await lying({ 'queue:push': () => answers.shift() });
    for (let n = 0; n < 3; n++) expect((await verbmqErrorOf(jobs.push(1))).code).toBe('ERR_VERBMQ_PROTOCOL');
    await jobs.push(1);
  });

  test('work beyond what was asked for is not begun', async () => {
    const work = Array.from({ length: 100 }, (_, tag) => ({ tag, attempt: 1, body: tag }));
    const { jobs } = await lying({ 'queue:work': () => from(work) });
    let running = 0;
    let most = 0;
    await jobs.work(
      async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
      },
      { concurrency: 3 },
    );
    expect(most).toBe(3);
  });
});
