import { once } from 'node:events';
import net from 'node:net';
import tls, { type ConnectionOptions } from 'node:tls';
import type { Listener } from '@verbmq/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { failure, outcomeOf } from '../../../test/support/expectations.js';
import { until } from '../../../test/support/until.js';
import { greets, IDENTITY, silentServer, TRUST, transport } from './greeting.js';

/** What a client that says nothing is given to resume its session with. */
async function ticketFrom(listener: Listener, options: ConnectionOptions): Promise<Buffer> {
  const { port } = listener.address as { port: number };
  const socket = tls.connect({ ...options, host: 'localhost', port });
  socket.on('error', () => {}).resume();
  const [ticket] = await once(socket, 'session');
  socket.destroy();
  return ticket;
}

describe('TLS', () => {
  it('is asked for by the option or the scheme', async () => {
    const own = transport();
    const listener = await own.listen('tls://localhost:0', { tls: IDENTITY });
    expect(listener.kind).toBe('tls');
    expect(listener.url).toMatch(/^tls:\/\/localhost:\d+$/);
    await greets(own, listener, listener.url, { tls: TRUST });
    const { port } = listener.address as { port: number };
    const connection = await own.connect({ host: '127.0.0.1', port }, { tls: TRUST });
    expect(connection.kind).toBe('tls');
  });

  it('needs a certificate to listen, and excludes tcp://', async () => {
    const own = transport();
    expect(await outcomeOf(() => own.listen('tls://localhost:0'))).toBe('ERR_VERBMQ_TLS');
    expect(await outcomeOf(() => own.listen('tcp://localhost:0', { tls: IDENTITY }))).toBe(TypeError);
    expect(await outcomeOf(() => own.listen('tls://localhost:0', { tls: 1 as never }))).toBe(TypeError);
  });

  it.each([
    ['a key that is none', { ...IDENTITY, key: 'garbage' }],
    ['a certificate that is none', { ...IDENTITY, cert: 'garbage' }],
    ['ciphers that nobody has', { ...IDENTITY, ciphers: 'NONE-OF-THESE' }],
  ])('refuses %s, and leaves nothing half open', async (_name, tls) => {
    const own = transport();
    const probe = await own.listen('tcp://127.0.0.1:0');
    const { port } = probe.address as { port: number };
    await probe.close();
    const listened = await failure(own.listen({ host: '127.0.0.1', port }, { tls }), 'ERR_VERBMQ_TLS');
    expect(listened.cause).toBeInstanceOf(Error);
    const connected = await failure(own.connect({ host: '127.0.0.1', port }, { tls }), 'ERR_VERBMQ_TLS');
    expect(connected.cause).toBeInstanceOf(Error);
    await greets(own, await own.listen({ host: '127.0.0.1', port }));
  });

  it.each([
    ['a server name', { servername: 5 }],
    ['a session', { session: 5 }],
    ['a check of the server’s identity', { checkServerIdentity: 5 }],
  ])('refuses what is no such thing for %s, and leaves no socket behind', async (_name, wrong) => {
    const { port, open } = await silentServer();
    const tls = { ...TRUST, ...wrong } as never;
    expect(await outcomeOf(() => transport().connect({ host: '127.0.0.1', port }, { tls }))).toBe(TypeError);
    const later = net.connect(port, '127.0.0.1').on('error', () => {});
    onTestFinished(() => void later.destroy());
    await new Promise((resolve) => later.once('connect', resolve));
    await until(() => open() > 0);
    await until(() => open() === 1); // sockets are accepted in order, so a connected one before would be there
  });

  it('takes an option that is there and undefined for one that is not', async () => {
    const own = transport();
    const listener = await own.listen('tls://localhost:0', { tls: IDENTITY });
    const tls = { ...TRUST, servername: undefined, session: undefined, checkServerIdentity: undefined };
    await greets(own, listener, listener.url, { tls });
  });

  it.each([
    ['a certificate that nobody vouches for', 'localhost', {}, /self-signed: pass it as tls\.ca/],
    ['a certificate for another name', 'localhost', { ...TRUST, servername: 'example.org' }, /another name/],
  ])('refuses %s, in words', async (_name, name, tls, words) => {
    const own = transport();
    const listener = await own.listen({ host: 'localhost', port: 0 }, { tls: IDENTITY });
    const { port } = listener.address as { port: number };
    const failed = own.connect({ host: name, port }, { tls });
    await expect(failed).rejects.toMatchObject({ code: 'ERR_VERBMQ_TLS' });
    await expect(failed).rejects.toThrow(words);
    await until(() => listener.stats().failed > 0);
    await greets(own, listener, listener.url, { tls: TRUST });
  });

  it('demands a client certificate where it is told to', async () => {
    const own = transport();
    const tls = { ...IDENTITY, ca: IDENTITY.cert, requestCert: true, rejectUnauthorized: true };
    const listener = await own.listen('tls://localhost:0', { tls });
    const refused = await failure(own.connect(listener.url, { tls: TRUST }), 'ERR_VERBMQ_TLS');
    expect(refused.message).toContain('it demands a client certificate');
    await greets(own, listener, listener.url, { tls: { ...TRUST, ...IDENTITY } });
    expect(listener.stats()).toEqual({ accepted: 1, failed: 1 });
  });

  it('says to a client with a certificate that is not accepted what is wrong', async () => {
    const own = transport();
    const tls = { ...IDENTITY, requestCert: true }; // it trusts public authorities alone
    const listener = await own.listen('tls://localhost:0', { tls });
    const mine = { ...TRUST, ...IDENTITY };
    const refused = await failure(own.connect(listener.url, { tls: mine }), 'ERR_VERBMQ_TLS');
    expect(refused).toMatchObject({ retryable: false, message: expect.stringContaining('SELF_SIGNED') });
    expect(listener.stats()).toEqual({ accepted: 0, failed: 1 });
    const lenient = await own.listen('tls://localhost:0', { tls: { ...tls, rejectUnauthorized: false } });
    await greets(own, lenient, lenient.url, { tls: mine });
  });

  it('lets nobody in by the ticket of a session whose certificate it has refused, or that had none', async () => {
    const either = transport();
    const mine = { ...TRUST, ...IDENTITY };
    for (const [ca, own, accepted] of [
      [IDENTITY.cert, TRUST, false],
      [undefined, mine, false],
      [IDENTITY.cert, mine, true],
    ] as const) {
      const listener = await either.listen('tls://localhost:0', {
        tls: { ...IDENTITY, ca, requestCert: true },
      });
      const session = await ticketFrom(listener, own);
      // Who resumes a session needs no certificate of its own.
      const again = either.connect(listener.url, { tls: { ...TRUST, session } });
      if (accepted) await (await again).close();
      else await failure(again, 'ERR_VERBMQ_TLS');
      expect(listener.stats()).toMatchObject({ accepted: accepted ? 1 : 0 });
    }
  });

  it('and plain TCP tell each other apart', async () => {
    const own = transport();
    const secured = await own.listen('tls://localhost:0', { tls: IDENTITY });
    const plain = await own.listen('tcp://localhost:0');
    const portOf = (listener: Listener) => (listener.address as { port: number }).port;
    const plainToTls = own.connect({ host: 'localhost', port: portOf(secured) });
    await expect(plainToTls).rejects.toThrow(/expects TLS/);
    const tlsToPlain = own.connect({ host: 'localhost', port: portOf(plain) }, { tls: TRUST });
    await expect(tlsToPlain).rejects.toMatchObject({ code: 'ERR_VERBMQ_TLS' });
  });

  it('handshakes that never end are ended, by time and by the listener', async () => {
    const own = transport();
    const listener = await own.listen(
      { host: '127.0.0.1', port: 0 },
      { tls: IDENTITY, handshakeTimeoutMs: 50 },
    );
    const { port } = listener.address as { port: number };
    const slow = net.connect(port, '127.0.0.1').on('error', () => {});
    await new Promise((resolve) => slow.on('close', resolve).resume());
    expect(listener.stats().failed).toBe(1);

    const patient = await own.listen({ host: '127.0.0.1', port: 0 }, { tls: IDENTITY });
    const waiting = net
      .connect((patient.address as { port: number }).port, '127.0.0.1')
      .on('error', () => {});
    const gone = new Promise((resolve) => waiting.on('close', resolve).resume());
    await new Promise((resolve) => waiting.on('connect', resolve));
    await greets(own, patient, patient.url, { tls: TRUST }); // sockets are accepted in order
    await patient.close();
    await gone;
  });
});
