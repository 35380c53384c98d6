import { PubsubBroker, pubsub, resubscribe } from '@verbmq/core/pubsub';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { errorOf, until } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import { connectPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';
import { brokered } from './support.js';

const setUp = memorySetUp();

test('several events that are asked for together come in their order, each with what was left out before it', async () => {
  const { broker, connect } = await brokered(setUp);
  const connection = await connect();
  const events = pubsub(connection).subscribe<Uint8Array>('a', { maxQueued: 1 });
  await events.ready;
  connection.pause();
  for (let n = 0; n < 200; n++) {
    broker.publish('a', new Uint8Array(10_000).fill(n));
    await turns(1);
  }
  const asked = Array.from({ length: 150 }, () => events.next());
  connection.resume();
  let published = 0;
  let left = 0;
  for (const next of asked) {
    const { value } = await next;
    left += value?.dropped ?? 0;
    published += 1 + (value?.dropped ?? 0);
    expect(value?.body[0]).toBe((published - 1) % 256);
    if (published === 200) break;
  }
  expect(left).toBeGreaterThan(0);
  await events.return();
  await Promise.all(asked);
});

test('a connect that gives the lost connection again ends the subscription, and not the process', async () => {
  const { connect } = await brokered(setUp);
  const connection = await connect();
  const events = resubscribe(async () => connection, 'a');
  const next = errorOf(events.next());
  await turns();
  connection.abort('lost');
  expect(await next).toBeInstanceOf(TypeError);
});

test.each([
  ['an object that is none', {}],
  ['what holds one', { connection: {}, state: 'closed' }],
  ['nothing', undefined],
])('a connect that gives no connection, but %s, is told so, and not asked again', async (_, given) => {
  let asked = 0;
  const events = resubscribe(async () => {
    asked++;
    return given as never;
  }, 'a');
  const next = errorOf(events.next());
  await turns(20);
  expect(asked).toBe(1);
  const error = await next;
  expect(error).toBeInstanceOf(TypeError);
  expect(error.message).toMatch(/connect(ion)?/);
  expect(await events.next()).toEqual({ done: true, value: undefined });
});

test('a connect that gives a connection at once, and no promise of one, does as well', async () => {
  const { broker, connect } = await brokered(setUp);
  const connection = await connect();
  const events = resubscribe<number>((() => connection) as never, 'a');
  const next = events.next();
  await until(() => broker.stats().subscriptions === 1);
  broker.publish('a', 7);
  expect((await next).value?.body).toBe(7);
  await events.return();
});

test('connections that are all lost at once leave the rest of the program its turns', async () => {
  const { connect } = await brokered(setUp);
  const controller = new AbortController();
  const dead = await Promise.all(Array.from({ length: 50 }, connect));
  for (const connection of dead) connection.abort('lost');
  let given = 0;
  const events = resubscribe(async () => dead[given++ % dead.length] as never, 'a', {
    signal: controller.signal,
  });
  const next = errorOf(events.next());
  setImmediate(() => setImmediate(() => controller.abort()));
  expect(await next).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
});

test('idle subscriptions of a peer that does not read hold no more together than what may wait', async () => {
  const maxHeldBytes = 1_000_000;
  const broker = new PubsubBroker({ maxHeldBytes });
  const { client: near, server: far } = await connectPair(setUp);
  serve(far, broker.service);
  const count = 300;
  const subscriptions = Array.from({ length: count }, (_, n) => pubsub(near).subscribe<Uint8Array>(`t.${n}`));
  await Promise.all(subscriptions.map(({ ready }) => ready));
  near.pause();
  for (let n = 0; n < count; n++) {
    broker.publish(`t.${n}`, new Uint8Array(60_000).fill(n));
    await turns(1);
  }
  expect(rpcStats(far).backlogBytes).toBeLessThan(1024 * 1024 + 200_000);
  expect(broker.stats().heldBytes).toBeLessThanOrEqual(maxHeldBytes);
  expect(broker.stats().dropped).toBeGreaterThan(count / 2);
  // Others still get theirs, though all that may be held is.
  const { client: other, server: behind } = await connectPair(setUp);
  serve(behind, broker.service);
  const events = pubsub(other).subscribe<Uint8Array>('t.*');
  await events.ready;
  expect(broker.publish('t.x', new Uint8Array(60_000))).toBe(1);
  expect((await events.next()).value).toMatchObject({ topic: 't.x', dropped: 0 });
  near.resume();
  for (const [n, subscription] of subscriptions.slice(0, 10).entries())
    expect((await subscription.next()).value?.body[0]).toBe(n);
  near.abort('enough');
  await until(() => broker.stats().subscriptions === 1);
  await until(() => broker.stats().heldBytes === 0);
});

test('the time of a client is for what it publishes, and ends no subscription', async () => {
  const broker = new PubsubBroker();
  const { client: near, server: far } = await connectPair(setUp);
  const service = { ...broker.service, hang: () => new Promise<void>(() => {}) };
  serve(far, service);
  const options = { timeoutMs: 10 };
  const events = pubsub(near, options).subscribe<number>('a');
  const next = events.next();
  const { code } = await errorOf(client<typeof service>(near, options).hang());
  expect(code).toBe('ERR_VERBMQ_RPC_DEADLINE'); // that of `next` would be over before
  await events.ready;
  expect(await pubsub(near, options).publish('a', 7)).toBe(1);
  expect((await next).value?.body).toBe(7);
});

test.each([undefined, 5, '', 'a'.repeat(256), Array(33).fill('a').join('.')])(
  'what is no topic and no pattern (%j) is refused before anything is sent',
  async (name) => {
    const { connect } = await brokered(setUp);
    const connection = await connect();
    const events = pubsub(connection);
    const before = connection.stats().messagesSent;
    expect(() => events.subscribe(name as string)).toThrow(TypeError);
    expect(() => events.subscribe(name as string)).toThrow(/^a pattern /);
    const error = await errorOf(events.publish(name as string, 1));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(/^a topic /);
    expect(connection.stats().messagesSent).toBe(before);
  },
);

test('a topic with wildcards is refused before anything is sent', async () => {
  const { connect } = await brokered(setUp);
  const connection = await connect();
  const before = connection.stats().messagesSent;
  expect(await errorOf(pubsub(connection).publish('a.*', 1))).toBeInstanceOf(TypeError);
  expect(connection.stats().messagesSent).toBe(before);
});
