import { setTimeout } from 'node:timers/promises';
import { connect, isVerbmqError, listen } from 'verbmq';
import { PubsubBroker, pubsub } from 'verbmq/pubsub';
import { QueueBroker, queue } from 'verbmq/queue';
import { type CallContext, client, RemoteError, serve } from 'verbmq/rpc';
import { expect, test } from 'vitest';
import { expectShown } from '../support/guide.js';

// What docs/messaging.md shows is run here, line by line, imports too: the last test compares the two.

interface Order {
  id: number;
  item: string;
}

const printed: unknown[] = [];
const console = {
  log: (...values: unknown[]) => void printed.push(values.length === 1 ? values[0] : values),
};

test('the guide', async () => {
  const stock = new Map([['tea', 2]]);

  const orderService = {
    place: (order: Order) => {
      const left = stock.get(order.item) ?? 0;
      if (left === 0) throw Object.assign(new Error(`no ${order.item} left`), { code: 'SOLD_OUT' });
      stock.set(order.item, left - 1);
      return { id: order.id, left: left - 1 };
    },

    // A stream of answers: any async iterable.
    async *countdown(from: number) {
      for (let n = from; n > 0; n--) yield n;
    },

    // A stream of requests: the body is an async iterable.
    async placeAll(orders: AsyncIterable<Order>) {
      let placed = 0;
      for await (const order of orders) if (stock.has(order.item)) placed++;
      return placed;
    },

    // Beside the body, a handler gets to know of the call: its metadata, its deadline, and when nobody waits any more.
    async slow(_: undefined, { signal }: CallContext) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
  };

  const jobs = new QueueBroker({ maxAttempts: 5, ackTimeoutMs: 30_000 });
  const events = new PubsubBroker();

  const listener = await listen('tcp://127.0.0.1:0');
  const server = serve(listener, { ...orderService, ...jobs.service, ...events.service });

  const connection = await connect(listener.url);
  const orders = client<typeof orderService>(connection);

  console.log(await orders.place({ id: 1, item: 'tea' }));
  for await (const n of orders.countdown.stream(3)) console.log(n);

  async function* morning() {
    yield { id: 2, item: 'tea' };
    yield { id: 3, item: 'coffee' };
  }
  console.log(await orders.placeAll(morning()));

  try {
    await orders.place({ id: 4, item: 'coffee' });
  } catch (error) {
    if (error instanceof RemoteError && error.code === 'SOLD_OUT') console.log(error.message);
  }

  try {
    await orders.slow(undefined, { timeoutMs: 50 });
  } catch (error) {
    if (isVerbmqError(error, 'ERR_VERBMQ_RPC_DEADLINE')) console.log(error.outcome);
  }

  const packing = queue<Order>(connection, 'packing');
  await packing.push({ id: 1, item: 'tea' });
  await packing.push({ id: 2, item: 'tea' });

  for await (const job of packing.consume({ prefetch: 10 })) {
    console.log('packed', job.body.id);
    job.acknowledge(); // or job.reject(), and somebody gets it again
    if (job.body.id === 2) break;
  }

  const leaving = new AbortController();

  async function pack(order: Order) {
    console.log('packed', order.id);
    if (order.id === 3) leaving.abort(); // or when a SIGTERM comes
  }

  async function keepPacking(signal: AbortSignal) {
    while (!signal.aborted) {
      try {
        const own = await connect(listener.url, { signal });
        await queue<Order>(own, 'packing')
          .work(pack, { signal })
          .finally(() => own.close());
      } catch (error) {
        if (!isVerbmqError(error)) throw error;
        await setTimeout(1_000 * Math.random()); // so that those who lost it together do not come back together
      }
    }
  }

  await packing.push({ id: 3, item: 'tea' });
  await keepPacking(leaving.signal);

  const news = pubsub(connection);
  const placed = news.subscribe<Order>('orders.*.placed', { whenSlow: 'drop-oldest' });
  await placed.ready;
  await news.publish('orders.tea.placed', { id: 1, item: 'tea' });

  for await (const { topic, body, dropped } of placed) {
    console.log(topic, body.id, dropped);
    break;
  }

  jobs.releaseConsumers();
  events.releaseSubscribers();
  await server.close(5_000);
  await connection.closed;

  expect(printed).toEqual([
    { id: 1, left: 1 },
    3,
    2,
    1,
    1,
    'no coffee left',
    'unknown',
    ['packed', 1],
    ['packed', 2],
    ['packed', 3],
    ['orders.tea.placed', 1, 0],
  ]);
});

test('shows what is run here, in the same order, and nothing else', () => {
  const others = expectShown('docs/messaging.md', import.meta.url, 11);
  // How it is installed is tried with the packages themselves.
  expect(others).toEqual([{ language: 'sh', code: 'npm install verbmq' }]);
});
