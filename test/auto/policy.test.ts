import diagnostics from 'node:diagnostics_channel';
import { VerbmqError } from '@verbmq/core';
import { AutoTransport, type PathInfo } from '@verbmq/core/auto';
import { MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { AbsentTransport, worldWithout } from '../support/absent-transport.js';
import { asAuto, autoPair, autoWorld, onBase, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { failure, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { until } from '../support/until.js';

describe('why a connection is on its base', () => {
  test('each side says its own reason and the peer’s', async () => {
    const { client, server } = await autoPair({ client: { policy: 'tcp' } });
    expect(client.path).toMatchObject({ fast: false, reason: 'policy' });
    expect(server.path).toMatchObject({ fast: false, reason: 'peer-declined', peerReason: 'policy' });
  });

  test('a server that will not is asked once, and says why', async () => {
    const { client, server, fast } = await autoPair({ server: { policy: 'tcp' } });
    expect(client.path).toMatchObject({ fast: false, reason: 'peer-declined', peerReason: 'policy' });
    expect(server.path).toMatchObject({ fast: false, reason: 'policy' });
    expect(fast.attempts.length).toBe(0);
  });

  test.each(['client', 'server'] as const)('without a fast transport on the %s', async (without) => {
    const pair = await autoPair({ without });
    const other = without === 'client' ? 'server' : 'client';
    expect(pair[without].path).toMatchObject({ reason: 'not-configured' });
    expect(pair[other].path).toMatchObject({ reason: 'peer-declined', peerReason: 'not-configured' });
  });

  test('the code of a probe that fails is the reason', async () => {
    const base = new MemoryNetwork();
    const make = (): AutoTransport => {
      const transport = new AutoTransport({
        base: new MemoryTransport({ network: base }),
        fast: new AbsentTransport({ network: new MemoryNetwork() }),
      });
      onTestFinished(() => transport.close());
      return transport;
    };
    const listener = await make().listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const client = asAuto(abortAfterTest(await make().connect(listener.url)));
    expect(client.path).toMatchObject({ fast: false, reason: 'no-device', peerReason: 'no-device' });
    const error = await failure(
      make().connect(listener.url, { policy: 'require-rdma' }),
      'ERR_VERBMQ_UNAVAILABLE',
    );
    expect(error.reason).toBe('no-device');
    await failure(
      make().listen({ host: 'here', port: 2 }, { policy: 'require-rdma' }),
      'ERR_VERBMQ_UNAVAILABLE',
    );
  });

  test('a path that cannot be reached is unreachable, and messages flow', async () => {
    const world = autoWorld();
    world.fast.connecting = 'refuse';
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    const { explanation } = await pathIs(client, ({ reason }) => reason === 'unreachable');
    expect(explanation).toContain('cannot connect');
    await client.send(numbered(1));
    const server = asAuto(abortAfterTest(await accepted));
    expect(numberOf((await take(server, 1))[0]!)).toBe(1);
    // The peer is told, and it is forgotten when the path is there.
    expect(await pathIs(server, ({ peerReason }) => peerReason === 'unreachable')).toMatchObject({
      reason: 'peer-declined',
      explanation: 'the peer could not use the fast path: unreachable',
    });
    world.fast.heal();
    await onFast(server);
    world.fast.breakOnce();
    await client.send(numbered(2));
    expect(await pathIs(server, ({ fast }) => !fast)).not.toHaveProperty('peerReason');
  });

  test('what this side has not enough of when it connects is the reason', async () => {
    const base = new MemoryNetwork();
    const network = new MemoryNetwork();
    class Pinched extends MemoryTransport {
      override async connect(): Promise<never> {
        throw new VerbmqError('ERR_VERBMQ_MEMLOCK', 'raise the limit', { reason: 'memlock' });
      }
    }
    const make = (fast: MemoryTransport): AutoTransport => {
      const transport = new AutoTransport({ ...QUICK, base: new MemoryTransport({ network: base }), fast });
      onTestFinished(() => transport.close());
      return transport;
    };
    const listener = await make(new MemoryTransport({ network })).listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const client = asAuto(abortAfterTest(await make(new Pinched({ network })).connect(listener.url)));
    const path = await pathIs(client, ({ reason }) => reason === 'memlock');
    expect(path.explanation).toBe('raise the limit');
    await pathIs(asAuto(abortAfterTest(await accepted)), ({ peerReason }) => peerReason === 'memlock');
  });

  test('a listener that has closed is one, and is not asked again', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const world = autoWorld();
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    const server = asAuto(abortAfterTest(await accepted));
    await onFast(client);
    await listener.close();
    expect(client.path.fast).toBe(true);
    world.fast.breakOnce();
    await client.send(numbered(1));
    await onBase(client);
    const declined = pathIs(client, ({ reason }) => reason === 'peer-declined');
    await vi.advanceTimersByTimeAsync(1000);
    expect(await declined).toMatchObject({ fast: false, flowing: true, peerReason: 'listener-closed' });
    expect(server.path.reason).toBe('listener-closed');
    const told: PathInfo[] = [];
    client.onPath((path) => told.push(path));
    await vi.advanceTimersByTimeAsync(1000);
    await turns(20);
    expect(told).toEqual([]);
  });

  test('is told on the diagnostics channel too', async () => {
    const told: { connection: unknown; path: PathInfo }[] = [];
    const listen = (message: unknown): void => void told.push(message as (typeof told)[number]);
    diagnostics.subscribe('verbmq:auto:path', listen);
    onTestFinished(() => void diagnostics.unsubscribe('verbmq:auto:path', listen));
    const { client, fast } = await autoPair();
    await onFast(client);
    expect(told).toContainEqual({ connection: client, path: { kind: 'memory', fast: true, flowing: true } });
    fast.cut();
    await client.send(numbered(1));
    await pathIs(client, ({ reason }) => reason === 'unreachable');
    const reasonsOf = told.filter(({ connection }) => connection === client).map(({ path }) => path.reason);
    expect(reasonsOf.at(-1)).toBe('unreachable'); // the ones before it may be over before data flows again
  });
});

describe('a fast transport that is there later than the connection', () => {
  test.each(['client', 'server'] as const)('is used then: on the %s', async (absent) => {
    const { late, server, client } = worldWithout(absent, QUICK);
    const listener = await server.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const connection = asAuto(abortAfterTest(await client.connect(listener.url)));
    const peer = asAuto(abortAfterTest(await accepted));
    expect((absent === 'client' ? connection : peer).path.reason).toBe('no-device');
    const told: PathInfo[] = [];
    connection.onPath((path) => told.push(path));
    peer.onPath((path) => told.push(path));
    const before = late.probes;
    await until(() => late.probes >= before + 3);
    expect(connection.path.fast).toBe(false);
    // Nothing is told but that it was asked again: the answer was the same.
    const news = told.filter(({ reason }) => reason !== 'negotiating' && reason !== 'peer-declined');
    expect(news).toEqual([]);
    late.present = true;
    await Promise.all([onFast(connection), onFast(peer)]);
    await connection.send(numbered(1));
    expect(numberOf((await take(peer, 1))[0]!)).toBe(1);
  });

  test('is probed once for all connections that wait for it', async () => {
    const { late, server, client } = worldWithout('client', { minFastRetryMs: 100, maxFastRetryMs: 100 });
    const listener = await server.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const connecting = Array.from({ length: 50 }, () => client.connect(listener.url));
    const waiting = (await Promise.all(connecting)).map((made) => asAuto(abortAfterTest(made)));
    const before = late.probes;
    // Each of them asks within 100 ms, and an answer serves all that ask within the 100 ms that follow.
    await until(() => late.probes >= before + 2);
    late.present = true;
    await Promise.all(waiting.map(onFast));
    expect(late.probes).toBeLessThan(before + waiting.length);
  });

  test('is probed once for connects that follow each other, and found when it is there', async () => {
    const { late, server, client } = worldWithout('client', { minFastRetryMs: 500, maxFastRetryMs: 500 });
    const listener = await server.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const before = late.probes;
    for (let n = 0; n < 20; n++) abortAfterTest(await client.connect(listener.url));
    expect(late.probes - before).toBeLessThan(10);
    late.present = true;
    await onFast(asAuto(abortAfterTest(await client.connect(listener.url))));
  });

  test.each(['policy', 'not-configured'] as const)(
    'is not asked for where the peer says %s',
    async (says) => {
      const { client } = await autoPair(
        says === 'policy' ? { server: { policy: 'tcp' } } : { without: 'server' },
      );
      const told: PathInfo[] = [];
      client.onPath((path) => told.push(path));
      // Meanwhile one that does ask has asked several times.
      const other = worldWithout('client', QUICK);
      const listener = await other.server.listen({ host: 'here', port: 1 });
      listener.onConnection((connection) => void abortAfterTest(connection));
      abortAfterTest(await other.client.connect(listener.url));
      await until(() => other.late.probes >= 8);
      expect(told).toEqual([]);
    },
  );
});

describe('a fast path that does not carry what it is given', () => {
  test.each([1, 2, 3])('is not used: frame %i of the proof is lost', async (nth) => {
    const world = autoWorld();
    let messages = 0;
    world.fast.verdictOf = ({ kind }) => (kind === 'message' && ++messages === nth ? 'drop' : 'deliver');
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    await pathIs(client, ({ reason }) => reason === 'probe-failed');
    await client.send(numbered(1));
    expect(numberOf((await take(abortAfterTest(await accepted), 1))[0]!)).toBe(1);
    await onFast(client); // the next attempt
  });

  test('is not used: one-sided reads are not answered', async () => {
    const world = autoWorld();
    world.fast.verdictOf = ({ kind }) => (kind === 'request' ? 'drop' : 'deliver');
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    await pathIs(client, ({ reason }) => reason === 'probe-failed');
    expect(client.path.fast).toBe(false);
  });

  test('is not used: its messages are too short', async () => {
    const pair = await autoPair({ both: { maxMessageBytes: 100_000 } });
    await onFast(pair.client);
    const world = autoWorld({ both: { maxMessageBytes: 100_000 }, fastMessageBytes: 4000 });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    await pathIs(client, ({ reason }) => reason === 'message-limit');
  });
});
