import type { AutoConnection } from '@verbmq/core/auto';
import { PubsubBroker, pubsub } from '@verbmq/core/pubsub';
import { QueueBroker, queue } from '@verbmq/core/queue';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect } from 'vitest';
import { until } from './support.js';

/** Two ends of a connection whose path changes. */
export interface Moving {
  readonly client: AutoConnection;
  readonly server: AutoConnection;
  /** Lets the path of the messages change, and resolves when it has; called while they flow. */
  readonly move: (round: number) => Promise<void>;
}

const PAYLOAD = 'x'.repeat(2000);

/** Lengths of bodies: such as fit into a frame of any path, go in pieces, and are bytes. */
const bodyOf = (n: number): { n: number; text: string } => ({ n, text: PAYLOAD.repeat((n % 40) + 1) });

/**
 * Calls, streams in both directions, jobs and events, all at a time on one connection, while its path changes again and again.
 * Every call runs once and is answered, every stream and subscription is whole and in order, every job is done once.
 */
export async function expectNothingLost(
  { client: near, server: far, move }: Moving,
  rounds: number,
): Promise<void> {
  const jobs = new QueueBroker();
  const events = new PubsubBroker();
  const ran: number[] = [];
  const service = {
    echo: async (body: { n: number; text: string }) => {
      ran.push(body.n);
      await new Promise((resolve) => setImmediate(resolve));
      return body;
    },
    length: (bytes: Uint8Array) => bytes.byteLength,
    async *count() {
      for (let n = 0; !over; n++) {
        yield n;
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    sum: async (numbers: AsyncIterable<number>) => {
      let next = 0;
      for await (const n of numbers) if (n !== next++) throw new Error(`${n} in place of ${next - 1}`);
      return next;
    },
  };
  let over = false;
  const server = serve(far, { ...service, ...jobs.service, ...events.service });
  const api = client<typeof service>(near);
  const topic = pubsub(near);
  const packing = queue<number>(near, 'packing');
  const enough = new AbortController();
  const progress = { calls: 0, items: 0, jobs: 0, events: 0, large: 0 };

  let lastCall = 0;
  const caller = async (): Promise<void> => {
    while (!over) {
      const body = bodyOf(++lastCall);
      expect(await api.echo(body)).toEqual(body);
      progress.calls++;
    }
  };
  const large = async (): Promise<void> => {
    while (!over) {
      expect(await api.length(new Uint8Array(500_000))).toBe(500_000);
      progress.large++;
    }
  };
  const reader = async (): Promise<void> => {
    for await (const n of api.count.stream()) expect(n).toBe(progress.items++);
  };
  let sent = 0;
  async function* numbers(): AsyncGenerator<number> {
    while (!over) {
      yield sent++;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  let pushed = 0;
  const pusher = async (): Promise<void> => {
    while (!over) await packing.push(pushed++);
  };
  const done: number[] = [];
  const worker = packing.work(
    (n) => {
      done.push(n);
      progress.jobs++;
    },
    { concurrency: 4, signal: enough.signal },
  );
  const subscription = topic.subscribe<number>('#');
  await subscription.ready;
  let published = 0;
  const publisher = async (): Promise<void> => {
    while (!over) {
      // No more than may wait, however long a path takes.
      if (published - progress.events < 500) expect(events.publish('a.b', published++)).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const subscriber = async (): Promise<void> => {
    for await (const { body, dropped } of subscription) {
      expect([body, dropped]).toEqual([progress.events++, 0]);
      if (over && progress.events === published) break;
    }
  };
  const sum = api.sum(numbers());
  const all = [...Array.from({ length: 16 }, caller), large(), reader(), pusher(), publisher(), sum];
  const reading = subscriber();

  for (let round = 0; round < rounds; round++) {
    const before = { ...progress };
    await move(round);
    await until(() =>
      Object.entries(progress).every(([what, count]) => count > before[what as keyof typeof before]),
    );
  }
  over = true;
  events.publish('a.b', published++); // it is the last one
  await Promise.all([...all, reading]);
  await until(() => done.length === pushed);
  enough.abort();
  await worker;

  expect(ran.sort((a, b) => a - b)).toEqual(Array.from({ length: lastCall }, (_, n) => n + 1));
  expect(await sum).toBe(sent);
  expect(done).toEqual(Array.from({ length: pushed }, (_, n) => n));
  expect(jobs.stats('packing')).toMatchObject({ acknowledged: pushed, redelivered: 0, unacknowledged: 0 });
  expect(events.stats()).toMatchObject({ published, dropped: 0 });
  await until(() => server.stats().running === 0);
  expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
  expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
}
