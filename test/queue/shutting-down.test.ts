import { queue } from '@verbmq/core/queue';
import { describe, expect, test } from 'vitest';
import { Gate, until, verbmqErrorOf } from '../rpc/support.js';
import { isPending } from '../support/expectations.js';
import type { SetUp } from '../support/set-up.js';
import { onEachTransport } from '../support/transports/each.js';
import { brokered } from './support.js';

/** What becomes of consumers when the server of their broker ends in order: none of them ends in silence. */
function shuttingDown(name: string, setUp: SetUp): void {
  describe(`a broker that shuts down, over ${name}`, () => {
    test.each([
      ['lets its consumers go', 'released'],
      ['gives them up', 'draining'],
    ])('work() ends what it has begun, and rejects, when the broker %s', async (_, reason) => {
      const { broker, server, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      const gate = new Gate();
      const begun: number[] = [];
      const work = async (n: number): Promise<void> => {
        begun.push(n);
        await gate.opened;
      };
      const working = verbmqErrorOf(jobs.work(work));
      await jobs.push(1);
      await jobs.push(2);
      await until(() => begun.length === 1);
      if (reason === 'released') broker.releaseConsumers();
      await server.close(1);
      expect(broker.stats('jobs')).toMatchObject({ ready: 2, unacknowledged: 0, consumers: 0 });
      expect(await isPending(working)).toBe(true);
      gate.open();
      expect(await working).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', reason });
      expect(begun).toEqual([1]);
    });

    test('a consumption throws when the broker lets it go, once, and others go on', async () => {
      const { broker, connect } = await brokered(setUp);
      const connection = await connect();
      const jobs = queue<number>(connection, 'jobs');
      const released = jobs.consume();
      const waiting = verbmqErrorOf(released.next());
      const behind = released.next();
      await until(() => broker.stats('jobs')?.consumers === 1);
      broker.releaseConsumers();
      expect(await waiting).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', reason: 'released' });
      for (const next of [behind, released.next(), released.return()])
        expect(await next).toEqual({ done: true, value: undefined });
      await jobs.push(1);
      await using others = jobs.consume();
      expect((await others.next()).value?.body).toBe(1);
      expect(connection.state).toBe('open');
    });

    test('who leaves when the broker lets it go has left', async () => {
      const { broker, connect } = await brokered(setUp);
      const jobs = queue<number>(await connect(), 'jobs');
      const leaving = new AbortController();
      const working = jobs.work(() => {}, { signal: leaving.signal });
      const consumed = jobs.consume();
      const waiting = consumed.next();
      await until(() => broker.stats('jobs')?.consumers === 2);
      leaving.abort();
      const left = consumed.return();
      broker.releaseConsumers();
      expect(await working).toBe(undefined);
      expect(await left).toEqual({ done: true, value: undefined });
      expect(await waiting).toEqual({ done: true, value: undefined });
    });
  });
}

await onEachTransport(shuttingDown);
