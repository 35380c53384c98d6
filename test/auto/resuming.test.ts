import type { Connection } from '@verbmq/core';
import { AutoTransport } from '@verbmq/core/auto';
import { MemoryTransport } from '@verbmq/core/memory-transport';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { asAuto, autoPair, autoWorld, onBase, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { settled } from '../support/expectations.js';
import { expectBytes, numbered, numberOf, pattern, take, takeAll } from '../support/messages.js';
import { streamsBetween } from '../support/numbered-stream.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { until } from '../support/until.js';

const WITHOUT_FAST = { both: { policy: 'tcp' } } as const;

describe('a base connection that breaks', () => {
  test('is replaced in the middle of traffic, and nothing is lost, repeated or reordered', async () => {
    const pair = await autoPair(WITHOUT_FAST);
    const traffic = streamsBetween(pair.client, pair.server, 30_000).traffic;
    for (let round = 0; round < 20; round++) {
      await Promise.all(traffic.map((stream) => stream.progress(Math.floor(Math.random() * 60))));
      pair.base.breakOnce();
      await pathIs(pair.client, ({ flowing }) => !flowing);
      await onBase(pair.client);
    }
    await Promise.all(traffic.map((stream) => stream.finish()));
  });

  test('together with the fast path, in any order, is replaced too', async () => {
    const pair = await autoPair();
    const traffic = streamsBetween(pair.client, pair.server, 5000).traffic;
    for (let round = 0; round < 20; round++) {
      await onFast(pair.client);
      await Promise.all(traffic.map((stream) => stream.progress(Math.floor(Math.random() * 30))));
      if (round % 3 !== 1) pair.base.breakOnce();
      if (round % 3 !== 0) pair.fast.breakOnce();
      await Promise.all(traffic.map((stream) => stream.progress(50)));
    }
    await Promise.all(traffic.map((stream) => stream.finish()));
  });

  test('is replaced though attempts hang, as where packets vanish', async () => {
    const { client, server, base } = await autoPair({ both: { policy: 'tcp', handshakeTimeoutMs: 50 } });
    const { length } = base.attempts;
    base.connectTo = () => (base.attempts.length < length + 3 ? 'ignore' : 'accept');
    base.breakOnce();
    await client.send(numbered(7));
    expect(numberOf((await take(server, 1))[0]!)).toBe(7);
    expect(base.attempts.length).toBe(length + 3);
  });

  test('is not missed while the fast path carries the data', async () => {
    const pair = await autoPair({ both: { heartbeatIntervalMs: 10, peerTimeoutMs: 40 } });
    await onFast(pair.client);
    pair.base.cut();
    const { length } = pair.base.attempts;
    await until(() => pair.base.attempts.length > length);
    expect(pair.client.path).toMatchObject({ fast: true, flowing: true });
    await pair.client.send(numbered(5));
    expect(numberOf((await take(pair.server, 1))[0]!)).toBe(5);
    pair.base.heal();
  });

  test('is survived by one-sided memory and by leases', async () => {
    const { client, server, base } = await autoPair(WITHOUT_FAST);
    const owned = await server.expose(300_000, { read: true, write: true, atomic: true });
    const remote = client.attach(owned.descriptor);
    const lease = client.allocate(100);
    lease.data.set(pattern(100));
    base.breakOnce();
    const writing = remote.write(0, pattern(300_000));
    const adding = Array.from({ length: 50 }, () => remote.fetchAdd(299_992, 0n));
    await writing;
    await Promise.all(adding);
    expectBytes(owned.data, pattern(300_000));
    base.breakOnce();
    await client.send(lease);
    expectBytes((await take(server, 1))[0]!, pattern(100));
  });
});

describe('a session that cannot be resumed', () => {
  test('fails on both sides when its window is over, once, and everything pending with it', async () => {
    const { client, server, base } = await autoPair({ both: { policy: 'tcp', resumeWindowMs: 50 } });
    base.cut();
    const sends = Array.from({ length: 20 }, (_, n) => settled(client.send(numbered(n, 100_000))));
    const receiving = settled(takeAll(client));
    const { graceful, error } = await client.closed;
    expect(graceful).toBe(false);
    expect(error).toMatchObject({
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      reason: 'resume-timeout',
      outcome: 'unknown',
    });
    for (const outcome of await Promise.all(sends)) expect(['ok', error?.code]).toContain(outcome);
    expect(await receiving).toBe(error?.code);
    expect((await server.closed).error).toMatchObject({ reason: 'resume-timeout' });
  });

  test('fails at once where resuming is off', async () => {
    const { client, base } = await autoPair({ both: { policy: 'tcp', resumeWindowMs: 0 } });
    base.breakOnce();
    await client.send(numbered(1));
    expect((await client.closed).error).toMatchObject({ reason: 'resume-off' });
  });

  test('is told apart: a server that has restarted does not know it, and a new session works', async () => {
    const world = autoWorld(WITHOUT_FAST);
    const first = await world.serverTransport.listen({ host: 'here', port: 1 });
    first.onConnection(() => {});
    const client = abortAfterTest(await world.clientTransport.connect(first.url));
    await client.send(numbered(1));
    // Another process on the same address: it knows nothing of the first one's sessions.
    world.base.network.remove(
      world.base.network.find(first.address) as Parameters<typeof world.base.network.remove>[0],
    );
    const second = new AutoTransport({
      ...QUICK,
      base: new MemoryTransport({ network: world.base.network }),
    });
    onTestFinished(() => second.close());
    const listener = await second.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    world.base.breakOnce();
    await client.send(numbered(2));
    const { error } = await client.closed;
    expect(error).toMatchObject({ reason: 'session-unknown', outcome: 'unknown' });
    const again = abortAfterTest(await world.clientTransport.connect(listener.url));
    await again.send(numbered(3));
    expect(numberOf((await take(abortAfterTest(await accepted), 1))[0]!)).toBe(3);
  });

  test('ends at once when it is closed or aborted', async () => {
    for (const how of ['close', 'abort'] as const) {
      const { client, base } = await autoPair(WITHOUT_FAST);
      base.cut();
      await client.send(numbered(1));
      await pathIs(client, ({ flowing }) => !flowing);
      if (how === 'close') expect(await client.close()).toMatchObject({ graceful: false });
      else client.abort('enough');
      await client.closed;
      const { length } = base.attempts;
      await new Promise((resolve) => setTimeout(resolve, 30)); // more than the longest pause between attempts
      expect(base.attempts.length).toBe(length);
    }
  });

  test('gives way when too many wait: the one that waits longest', async () => {
    const world = autoWorld({ both: { policy: 'tcp', maxSuspendedSessions: 2 } });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const servers: Connection[] = [];
    listener.onConnection((connection) => servers.push(abortAfterTest(connection)));
    for (let n = 0; n < 3; n++) abortAfterTest(await world.clientTransport.connect(listener.url));
    world.base.cut();
    const suspended: Connection[] = [];
    for (const server of servers) asAuto(server).onPath(() => suspended.push(server));
    for (const server of servers) if (server.state === 'open') server.trySend(numbered(1));
    await until(() => suspended.length === 3);
    const [longest, ...others] = suspended;
    expect((await longest?.closed)?.error).toMatchObject({ reason: 'too-many-suspended' });
    expect(others.map(({ state }) => state)).toEqual(['open', 'open']);
  });

  test('does not outlive its listener', async () => {
    const world = autoWorld(WITHOUT_FAST);
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    abortAfterTest(await world.clientTransport.connect(listener.url));
    const server = asAuto(abortAfterTest(await accepted));
    world.base.cut();
    await server.send(numbered(1));
    await pathIs(server, ({ flowing }) => !flowing);
    await listener.close();
    expect((await server.closed).error).toMatchObject({ reason: 'listener-closed' });
  });
});

describe('500 clients that lose their server at the same moment do not come back in one burst', () => {
  /** The pauses are judged, not how fast this machine makes 500 attempts: so time passes when the test says so. */
  async function scene() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const world = autoWorld({ both: { policy: 'tcp', maxResumeDelayMs: 20_000, resumeWindowMs: 120_000 } });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    listener.onConnection(() => {});
    const clients = await Promise.all(
      Array.from({ length: 500 }, async () => asAuto(await world.clientTransport.connect(listener.url))),
    );
    for (const client of clients) abortAfterTest(client);
    const lose = async (how: () => void): Promise<number> => {
      how();
      for (const client of clients) client.trySend(numbered(1));
      await Promise.all(clients.map((client) => pathIs(client, ({ flowing }) => !flowing)));
      return performance.now();
    };
    return { ...world, clients, lose };
  }

  const histogramOf = (times: readonly number[], from: number, ms: number, buckets: number): number[] => {
    const histogram = new Array<number>(buckets).fill(0);
    for (const at of times) histogram[Math.min(buckets - 1, Math.floor((at - from) / ms))]!++;
    return histogram;
  };

  test('when it is back at once', async () => {
    const { base, clients, lose } = await scene();
    const before = base.attempts.length;
    const lostAt = await lose(() => base.breakOnce());
    await vi.advanceTimersByTimeAsync(1000);
    await Promise.all(clients.map(onBase));
    // The first pause is drawn evenly from 0 to 1,000 ms: fifty fall into each tenth of it, give or take seven.
    const histogram = histogramOf(base.attempts.slice(before), lostAt, 100, 10);
    const shown = `attempts in each tenth: ${histogram.join(' ')}`;
    expect(base.attempts.length - before, shown).toBe(500);
    expect(Math.max(...histogram), shown).toBeLessThan(100);
    expect(Math.min(...histogram), shown).toBeGreaterThan(10);
  });

  test('when it is gone for ten seconds, and returns', async () => {
    const { base, clients, lose } = await scene();
    const before = base.attempts.length;
    await lose(() => base.cut()); // and whoever comes finds nobody there
    await vi.advanceTimersByTimeAsync(10_000);
    expect(clients.filter(({ path }) => path.flowing)).toEqual([]);
    // Fewer and fewer: with pauses of half a second, one, two, … on average there are some four or five.
    expect(base.attempts.length - before).toBeLessThan(500 * 8);
    base.heal();
    const returnedAt = performance.now();
    const returns = base.attempts.length;
    for (let second = 0; second < 21; second++) await vi.advanceTimersByTimeAsync(1000);
    await Promise.all(clients.map(onBase));
    // Each has one pause of at most 20 seconds to go, and most have one of 8 or 16 seconds at most.
    const histogram = histogramOf(base.attempts.slice(returns), returnedAt, 1000, 20);
    const shown = `attempts in each second: ${histogram.join(' ')}`;
    expect(base.attempts.length - returns, shown).toBe(500);
    expect(Math.max(...histogram), shown).toBeLessThan(125);
    expect(
      histogram.slice(0, 8).every((count) => count > 5),
      shown,
    ).toBe(true);
  });
});
