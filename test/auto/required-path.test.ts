import type { Listener } from '@verbmq/core';
import type { AutoConnection, PathInfo } from '@verbmq/core/auto';
import { describe, expect, test } from 'vitest';
import { type AutoWorldOptions, asAuto, autoPair, autoWorld, type Cable } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest } from '../support/pair.js';
import { Kind, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';
import { until } from '../support/until.js';

/** A client that speaks for itself on a base connection. */
function rawPeer(cable: Cable, listener: Listener): Promise<RawAutoPeer> {
  return RawAutoPeer.connect(rawTransport(cable), listener.address);
}

describe('a fast path that is required', () => {
  const required = { client: { policy: 'require-rdma' } } as const;

  test('is there when connect resolves, and when the peer may send', async () => {
    const { client, server } = await autoPair(required);
    expect(client.path).toMatchObject({ fast: true, flowing: true });
    expect(server.path).toMatchObject({ fast: true, flowing: true });
  });

  test('fails the connect with the reason when it cannot be had', async () => {
    const world = autoWorld(required);
    world.fast.connecting = 'refuse';
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const error = await failure(world.clientTransport.connect(listener.url), 'ERR_VERBMQ_UNAVAILABLE');
    expect(error.reason).toBe('unreachable');
    expect(world.clientTransport.stats().connections).toBe(0);
  });

  test('fails the connect when the peer has none', async () => {
    const world = autoWorld({ ...required, without: 'server' });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const error = await failure(world.clientTransport.connect(listener.url), 'ERR_VERBMQ_UNAVAILABLE');
    expect(error).toMatchObject({
      reason: 'peer-declined',
      message: expect.stringContaining('not-configured'),
    });
  });

  test('ends the connection when it breaks', async () => {
    const { client, fast } = await autoPair(required);
    fast.breakOnce();
    await client.send(numbered(1));
    expect((await client.closed).error).toMatchObject({ reason: 'broken' });
  });

  test('can be cancelled while it is waited for', async () => {
    const world = autoWorld(required);
    world.fast.connecting = 'ignore';
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    listener.onConnection((connection) => void abortAfterTest(connection));
    const controller = new AbortController();
    const connecting = world.clientTransport.connect(listener.url, { signal: controller.signal });
    const refused = failure(connecting, 'ERR_VERBMQ_CANCELLED');
    while (world.fast.attempts.length === 0) await new Promise((resolve) => setImmediate(resolve));
    controller.abort();
    await refused;
  });
});

describe('a server that requires the fast path', () => {
  const server = { policy: 'require-rdma' } as const;

  /** A server, what it has accepted, and the kinds of frames that were sent on the base connection. */
  async function scene(options: AutoWorldOptions = {}) {
    const world = autoWorld({ server, ...options });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted: { connection: AutoConnection; path: PathInfo }[] = [];
    listener.onConnection((made) => {
      const connection = asAuto(abortAfterTest(made));
      accepted.push({ connection, path: connection.path });
    });
    return { ...world, listener, accepted };
  }

  test('accepts a connection that is on it, and connect waits for that', async () => {
    const { clientTransport, listener, accepted } = await scene();
    const client = asAuto(abortAfterTest(await clientTransport.connect(listener.url)));
    expect(client.path).toMatchObject({ fast: true, flowing: true });
    await client.send(numbered(1));
    await until(() => accepted.length === 1);
    const { connection, path } = accepted[0]!;
    expect(path).toMatchObject({ fast: true, flowing: true });
    expect(numberOf((await take(connection, 1))[0]!)).toBe(1);
  });

  test('accepts none that cannot have it, and the client is told why', async () => {
    const { clientTransport, listener, accepted, fast } = await scene();
    fast.connecting = 'refuse';
    const error = await failure(clientTransport.connect(listener.url), 'ERR_VERBMQ_UNAVAILABLE');
    expect(error.reason).toBe('unreachable');
    await until(() => listener.stats().failed === 1);
    expect(accepted).toEqual([]);
  });

  test.each([
    ['has none', { without: 'client' }, 'not-configured'],
    ['does not want it', { client: { policy: 'tcp' } }, 'policy'],
  ] as const)('refuses a client that %s, in words', async (_, options, says) => {
    const { clientTransport, listener } = await scene(options);
    const error = await failure(clientTransport.connect(listener.url), 'ERR_VERBMQ_REJECTED');
    expect(error.message).toContain(says);
  });

  test('delivers nothing that came on the base connection', async () => {
    const { base, listener, accepted } = await scene();
    const raw = await rawPeer(base, listener);
    expect(await raw.open()).toMatchObject({ fastRequired: true });
    raw.send(Kind.DATA, numbered(1), { messages: 1, sequence: 1 });
    const { error } = await raw.connection.closed;
    expect(error).toMatchObject({
      code: 'ERR_VERBMQ_PEER_ABORTED',
      message: expect.stringContaining('the fast path is required'),
    });
    expect(accepted).toEqual([]);
  });

  test('does not wait for ever for a client that never asks for it', async () => {
    const { base, listener, accepted } = await scene({ server: { ...server, handshakeTimeoutMs: 50 } });
    const raw = await rawPeer(base, listener);
    await raw.open();
    await raw.connection.closed;
    await until(() => listener.stats().failed === 1);
    expect(accepted).toEqual([]);
  });

  test('counts those that wait among the handshakes', async () => {
    const { base, listener } = await scene({ server: { ...server, maxHandshakes: 2 } });
    for (let n = 0; n < 2; n++) await (await rawPeer(base, listener)).open();
    const third = await rawPeer(base, listener);
    expect(await third.json(Kind.REFUSE)).toMatchObject({ reason: 'overloaded' });
  });

  test('ends the connection when it breaks', async () => {
    const { clientTransport, listener, accepted, fast } = await scene();
    const client = asAuto(abortAfterTest(await clientTransport.connect(listener.url)));
    await until(() => accepted.length === 1);
    fast.breakOnce();
    await accepted[0]!.connection.send(numbered(1));
    expect((await accepted[0]!.connection.closed).graceful).toBe(false);
    expect((await client.closed).graceful).toBe(false);
  });

  test('keeps no path of a client that comes with a second one while it is on the first', async () => {
    const { base, fast, listener, accepted } = await scene();
    const raw = await rawPeer(base, listener);
    await raw.open();
    const prove = async (number: number): Promise<RawAutoPeer> => {
      const { port, claim } = await raw.ask(number);
      const path = await RawAutoPeer.connect(rawTransport(fast), { host: 'here', port });
      path.sendJson(Kind.CLAIM, claim);
      await path.next(Kind.PROOF);
      path.sendJson(Kind.PROVED, {});
      return path;
    };
    const first = await prove(1);
    await first.next(Kind.READY);
    raw.send(Kind.SWITCH, Uint8Array.of(1, 0, 0, 0), { sequence: 1 });
    await until(() => accepted.length === 1);
    const second = await prove(2);
    expect((await accepted[0]!.connection.closed).error).toMatchObject({ reason: 'broken' });
    await first.connection.closed;
    await second.connection.closed;
  });
});
