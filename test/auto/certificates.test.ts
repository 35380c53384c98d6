import diagnostics from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import net, { type AddressInfo, type Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { Listener } from '@verbmq/core';
import { VerbmqTransport } from 'verbmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, onBase, pathIs } from '../support/auto-pair.js';
import { failure, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { until } from '../support/until.js';

const pem = (name: string): string =>
  readFileSync(new URL(`../support/certificate/${name}.pem`, import.meta.url), 'utf8');
const IDENTITY = { key: pem('key'), cert: pem('certificate') };
const TRUST = { ca: pem('certificate') };

function transport(): VerbmqTransport {
  const made = new VerbmqTransport({ policy: 'tcp', maxResumeDelayMs: 20 });
  onTestFinished(() => made.close());
  return made;
}

/** Stands between clients and a listener: resets the connections that there are, and hangs up on so many of those that come. */
async function relayTo(listener: Listener) {
  const sockets = new Set<Socket>();
  const reset = (): void => sockets.forEach((socket) => void socket.resetAndDestroy());
  const relay = { url: '', target: listener, hangUps: 0, reset };
  const server = net.createServer((near) => {
    if (relay.hangUps > 0) {
      relay.hangUps--;
      near.on('error', () => {}).once('data', () => near.destroy());
      return;
    }
    const far = net.connect((relay.target.address as { port: number }).port, 'localhost');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => void server.listen(0, 'localhost', resolve));
  onTestFinished(() => {
    server.close();
    relay.reset();
  });
  relay.url = `verbmq://localhost:${(server.address() as AddressInfo).port}`;
  return relay;
}

/** A server that lets in only who has a certificate that it trusts. */
async function scene() {
  const tls = { ...IDENTITY, ...TRUST, requestCert: true, rejectUnauthorized: true };
  const listener = await transport().listen('verbmq://localhost:0', { tls });
  return { accepted: nextConnection(listener), listener };
}

describe('a server that asks for client certificates', () => {
  test('lets in who has one, also when it comes back', async () => {
    const { accepted, listener } = await scene();
    const relay = await relayTo(listener);
    const connecting = transport().connect(relay.url, { tls: { ...TRUST, ...IDENTITY } });
    const client = asAuto(abortAfterTest(await connecting));
    const server = abortAfterTest(await accepted);
    const lost = pathIs(client, ({ flowing }) => !flowing);
    relay.reset();
    await lost;
    await client.send(numbered(1));
    await onBase(client);
    expect(numberOf((await take(server, 1))[0]!)).toBe(1);
    expect(client.path.kind).toBe('tls');
  });

  test('refuses who has none, says what is missing, and is not asked again', async () => {
    const { listener } = await scene();
    let attempts = 0;
    const count = (): void => void attempts++;
    diagnostics.subscribe('net.server.socket', count);
    onTestFinished(() => void diagnostics.unsubscribe('net.server.socket', count));
    const own = transport();
    const error = await failure(own.connect(listener.url, { tls: TRUST }), 'ERR_VERBMQ_TLS');
    expect(error.message).toContain('client certificate');
    expect(error.retryable).toBe(false);
    expect(own.stats().connections).toBe(0);
    await turns(50);
    expect(attempts).toBe(1);
    await until(() => listener.stats().failed > 0); // for the server TLS may fail a little later
    expect(listener.stats()).toEqual({ accepted: 0, failed: 1 });
  });
});

describe('a session by TLS whose connection is lost', () => {
  async function lostSession(tls: ConnectionOptions = {}) {
    const { accepted, listener } = await scene();
    const relay = await relayTo(listener);
    const connecting = transport().connect(relay.url, { tls: { ...TRUST, ...IDENTITY, ...tls } });
    const client = asAuto(abortAfterTest(await connecting));
    return { client, server: abortAfterTest(await accepted), relay };
  }
  const REFUSED = {
    code: 'ERR_VERBMQ_CONNECTION_LOST',
    reason: 'tls',
    retryable: false,
    cause: { code: 'ERR_VERBMQ_TLS' },
  };

  test('ends at once when the server does not let in the client any more', async () => {
    const { client, relay } = await lostSession();
    const tls = { ...IDENTITY, requestCert: true, rejectUnauthorized: true }; // it trusts public authorities alone
    relay.target = await transport().listen('verbmq://localhost:0', { tls });
    relay.reset();
    expect((await client.closed).error).toMatchObject(REFUSED);
    expect(relay.target.stats().accepted).toBe(0);
  });

  test('ends at once when the client does not trust the server any more', async () => {
    let problem: Error | undefined;
    const { client, relay } = await lostSession({ checkServerIdentity: () => problem });
    problem = new Error('it was revoked');
    relay.reset();
    const { error } = await client.closed;
    expect(error).toMatchObject(REFUSED);
    expect(error?.message).toContain('it was revoked');
  });

  test('goes on when the server is too busy for some attempts, and hangs up on them', async () => {
    const { client, server, relay } = await lostSession();
    relay.hangUps = 3;
    relay.reset();
    await client.send(numbered(1));
    expect(numberOf((await take(server, 1))[0]!)).toBe(1);
    expect(relay.hangUps).toBe(0);
  });
});
