import { type Job, QueueBroker, queue } from '@verbmq/core/queue';
import { rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import type { Killable } from '../rpc/dead-paths.js';
import { until, verbmqErrorOf } from '../rpc/support.js';

/** What becomes of jobs when the peer dies, at both sides. */
export function deadPaths(make: () => Promise<Killable>): void {
  test('with work that was not acknowledged, and pushes that wait', async () => {
    const { client: near, server: far, kill } = await make();
    const broker = new QueueBroker({ maxReady: 2, whenFull: 'wait' });
    const server = serve(far, broker.service);
    const jobs = queue<number>(near, 'jobs');
    const held: Job<number>[] = [];
    const consumed = verbmqErrorOf(
      (async () => {
        for await (const job of jobs.consume({ prefetch: 4 })) if (held.push(job) === 2) job.acknowledge();
      })(),
    );
    await until(() => broker.stats('jobs')?.consumers === 1);
    for (let n = 0; n < 7; n++) await jobs.push(n);
    await until(() => held.length === 5 && broker.stats('jobs')?.acknowledged === 1);
    const { heldBytes } = broker.stats();
    const pushing = verbmqErrorOf(jobs.push(7));
    await until(() => broker.stats().heldBytes > heldBytes);
    kill();
    const lost = {
      code: expect.stringMatching(/ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/),
      outcome: 'unknown',
    };
    expect(await pushing).toMatchObject(lost);
    expect(await consumed).toMatchObject(lost);
    for (const job of held) job.acknowledge(); // nobody hears it
    await Promise.all([near.closed, far.closed]);
    await until(() => server.stats().running === 0);
    const stats = { ready: 6, unacknowledged: 0, consumers: 0, acknowledged: 1, pushed: 7 };
    expect(broker.stats('jobs')).toMatchObject(stats);
    expect(broker.stats().heldBytes).toBe(heldBytes);
    expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
    expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
  });
}
