import type { Connection } from '@verbmq/core';
import { resubscribe } from '@verbmq/core/pubsub';
import { expect, test } from 'vitest';
import { until } from '../rpc/support.js';
import type { SetUp } from '../support/set-up.js';
import { brokered } from './support.js';

export function resubscribing(setUp: SetUp): void {
  test('resubscribe goes on with the next connection, and says where something may be missing', async () => {
    const { broker, connect } = await brokered(setUp);
    const connections: Connection[] = [];
    const events = resubscribe<number>(async () => {
      if (connections.length === 3) throw new Error('no more connections');
      const connection = await connect();
      connections.push(connection);
      return connection;
    }, 'a.*');
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const { body, gap } of events) seen.push([body, gap]);
    })();
    reading.catch(() => {});
    for (let round = 0; round < 3; round++) {
      await until(() => broker.stats().subscriptions === 1);
      broker.publish('a.b', round);
      broker.publish('a.b', round + 10);
      await until(() => seen.length === (round + 1) * 2);
      connections[round]?.abort('lost');
      await until(() => broker.stats().subscriptions === 0 || connections.length > round + 1);
    }
    await expect(reading).rejects.toThrow('no more connections');
    expect(seen).toEqual([
      [0, false],
      [10, false],
      [1, true],
      [11, false],
      [2, true],
      [12, false],
    ]);
  });

  test('what subscribes again can be disposed of, whatever it waits for', async () => {
    const { broker, connect } = await brokered(setUp);
    const connection = await connect();
    let asked: AbortSignal | undefined;
    const never = (signal: AbortSignal): Promise<Connection> => {
      asked = signal;
      return new Promise(() => {});
    };
    let waiting: Promise<unknown>[];
    {
      await using unused = resubscribe(never, 'a');
      await using connecting = resubscribe(never, 'a');
      await using waits = resubscribe(async () => connection, 'a');
      await using reads = resubscribe<number>(async () => connection, 'b');
      waiting = [connecting.next(), waits.next()];
      const first = reads.next();
      await until(() => broker.stats().subscriptions === 2);
      broker.publish('b', 1);
      expect((await first).value).toEqual({ topic: 'b', body: 1, headers: {}, dropped: 0, gap: false });
      expect(asked?.aborted).toBe(false);
      expect(Symbol.asyncDispose in unused).toBe(true);
    }
    for (const next of waiting) expect(await next).toEqual({ done: true, value: undefined });
    expect(asked?.aborted).toBe(true);
    await until(() => broker.stats().subscriptions === 0);
    expect(connection.state).toBe('open');
  });
}
