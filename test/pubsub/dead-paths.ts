import { PubsubBroker, pubsub } from '@verbmq/core/pubsub';
import { rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import type { Killable } from '../rpc/dead-paths.js';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { turns } from '../support/expectations.js';

/** What becomes of events when the peer dies, at both sides. */
export function deadPaths(make: () => Promise<Killable>): void {
  test('with a subscriber that waits, and one that stopped reading', async () => {
    const { client: near, server: far, kill } = await make();
    const broker = new PubsubBroker();
    const server = serve(far, broker.service);
    const topic = pubsub(near);
    const waits = topic.subscribe('nothing');
    const unread = topic.subscribe<Uint8Array>('a', { maxQueued: 30 });
    await Promise.all([waits.ready, unread.ready]);
    const waiting = verbmqErrorOf(waits.next());
    while (broker.stats().dropped === 0) {
      broker.publish('a', new Uint8Array(20_000));
      await turns(1);
    }
    expect(broker.stats().heldBytes).toBeGreaterThan(29 * 20_000);
    kill();
    const lost = {
      code: expect.stringMatching(/ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/),
      outcome: 'unknown',
    };
    expect(await waiting).toMatchObject(lost);
    const reading = (async () => {
      for await (const { body } of unread) expect(body.byteLength).toBe(20_000);
    })();
    expect(await verbmqErrorOf(reading)).toMatchObject(lost); // behind what has arrived
    await Promise.all([near.closed, far.closed]);
    await until(() => server.stats().running === 0);
    expect(broker.stats()).toMatchObject({ subscriptions: 0, heldBytes: 0 });
    expect(broker.publish('a', new Uint8Array(1))).toBe(0);
    expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
    expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
  });
}
