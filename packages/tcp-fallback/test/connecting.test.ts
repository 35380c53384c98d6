// Longer than 300 lines: it is one list of what may become of a connect, by kind of address.
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { existsSync, linkSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net, { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import tls, { type ConnectionOptions } from 'node:tls';
import type { Listener, VerbmqError } from '@verbmq/core';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { failure, outcomeOf } from '../../../test/support/expectations.js';
import { nextConnection } from '../../../test/support/pair.js';
import { PeerProcess } from '../../../test/support/peer-process.js';
import { unixSetUp } from '../../../test/support/transports/tcp.js';
import { until } from '../../../test/support/until.js';
import { lockName } from '../dist/path-lock.js';

const directory = mkdtempSync(path.join(tmpdir(), 'verbmq-tcp-'));
afterAll(() => rmSync(directory, { recursive: true }));

function pem(name: string): string {
  return readFileSync(new URL(`../../../test/support/certificate/${name}.pem`, import.meta.url), 'utf8');
}
const IDENTITY = { key: pem('key'), cert: pem('certificate') };
const TRUST = { ca: IDENTITY.cert };

function transport(): TcpTransport {
  const made = new TcpTransport();
  onTestFinished(() => made.close());
  return made;
}

async function greets(
  client: TcpTransport,
  listener: Listener,
  address = listener.url,
  options = {},
): Promise<void> {
  const accepted = nextConnection(listener);
  const connection = await client.connect(address, options);
  const server = await accepted;
  const answers = server.messages();
  await connection.send(Buffer.from('good day'));
  expect(Buffer.from((await answers.next()).value?.data ?? []).toString()).toBe('good day');
  await answers.return?.();
  await connection.close();
}

describe('addresses', () => {
  it('that a name has several of are all listened on, with one port', async () => {
    const own = transport();
    const listener = await own.listen({ host: 'localhost', port: 0 });
    const { host, port } = listener.address as { host: string; port: number };
    expect(host).toBe('localhost');
    expect(port).toBeGreaterThan(0);
    await greets(own, listener, `tcp://localhost:${port}`);
    await greets(own, listener, `tcp://127.0.0.1:${port}`);
    const resolved = await lookup('localhost', { all: true });
    if (resolved.some(({ family }) => family === 6)) await greets(own, listener, `tcp://[::1]:${port}`);
  });

  it('of IPv6 are given as such', async () => {
    const own = transport();
    const listener = await own.listen('tcp://[::1]:0');
    expect(listener.url).toMatch(/^tcp:\/\/\[::1\]:\d+$/);
    await greets(own, listener);
  });

  it('that are in use say so, and leave nothing half open', async () => {
    const own = transport();
    const listener = await own.listen('tcp://127.0.0.1:0');
    const { port } = listener.address as { port: number };
    await expect(own.listen({ host: '127.0.0.1', port })).rejects.toMatchObject({
      code: 'ERR_VERBMQ_ADDRESS_IN_USE',
    });
    await expect(own.listen({ host: 'localhost', port })).rejects.toMatchObject({
      code: 'ERR_VERBMQ_ADDRESS_IN_USE',
    });
    await listener.close();
    await greets(own, await own.listen({ host: 'localhost', port }));
  });

  it('that this machine does not have are refused in words', async () => {
    const failed = transport().listen({ host: '192.0.2.1', port: 0 });
    await expect(failed).rejects.toMatchObject({ code: 'ERR_VERBMQ_LISTEN_FAILED' });
    await expect(failed).rejects.toThrow(/this machine has no such address/);
  });

  it('where nobody listens are a failure to connect, in words', async () => {
    const failed = transport().connect('tcp://127.0.0.1:1');
    await expect(failed).rejects.toMatchObject({ code: 'ERR_VERBMQ_CONNECT_FAILED' });
    await expect(failed).rejects.toThrow(/nobody listens there/);
  });
});

/** A server that accepts and never speaks, and what it has open. */
/** What a client that says nothing is given to resume its session with. */
async function ticketFrom(listener: Listener, options: ConnectionOptions): Promise<Buffer> {
  const { port } = listener.address as { port: number };
  const socket = tls.connect({ ...options, host: 'localhost', port });
  socket.on('error', () => {}).resume();
  const [ticket] = await once(socket, 'session');
  socket.destroy();
  return ticket;
}

async function silentServer(): Promise<{ port: number; open: () => number }> {
  const sockets = new Set<net.Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: (server.address() as net.AddressInfo).port, open: () => sockets.size };
}

describe('an attempt to connect that is cancelled', () => {
  it('within the hello gives the socket back', async () => {
    const { port, open } = await silentServer();
    const cancel = new AbortController();
    const attempt = transport().connect({ host: '127.0.0.1', port }, { signal: cancel.signal });
    const failed = attempt.catch((error: VerbmqError) => error);
    await until(() => open() === 1);
    cancel.abort(new Error('changed my mind'));
    expect(await failed).toMatchObject({
      code: 'ERR_VERBMQ_CANCELLED',
      cause: { message: 'changed my mind' },
    });
    await until(() => open() === 0);
  });

  it('within the TLS handshake gives the socket back', async () => {
    const { port, open } = await silentServer();
    const cancel = new AbortController();
    const attempt = transport().connect({ host: '127.0.0.1', port }, { signal: cancel.signal, tls: TRUST });
    const failed = attempt.catch((error: VerbmqError) => error);
    await until(() => open() === 1);
    cancel.abort();
    expect(await failed).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
    await until(() => open() === 0);
  });

  it('before the socket is connected gives it back', async () => {
    const { port } = await silentServer();
    const cancel = new AbortController();
    const attempt = transport().connect({ host: '127.0.0.1', port }, { signal: cancel.signal });
    cancel.abort();
    await expect(attempt).rejects.toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
  });

  it('by its time limit says so', async () => {
    const { port, open } = await silentServer();
    const attempt = transport().connect({ host: '127.0.0.1', port }, { timeoutMs: 50 });
    await expect(attempt).rejects.toMatchObject({ code: 'ERR_VERBMQ_CONNECT_TIMEOUT' });
    await until(() => open() === 0);
  });
});

describe('Unix sockets', () => {
  it('are told by their path, and the file goes with the listener', async () => {
    const own = transport();
    const file = path.join(directory, 'plain.sock');
    const listener = await own.listen({ path: file });
    expect(listener.kind).toBe('unix');
    expect(listener.url).toBe(`unix://${file}`);
    await greets(own, listener);
    await expect(own.listen({ path: file })).rejects.toMatchObject({ code: 'ERR_VERBMQ_ADDRESS_IN_USE' });
    await listener.close();
    const failed = own.connect({ path: file });
    await expect(failed).rejects.toMatchObject({ code: 'ERR_VERBMQ_CONNECT_FAILED' });
    await expect(failed).rejects.toThrow(/no such socket file/);
  });

  it('that a killed process left behind are taken over', async () => {
    const file = path.join(directory, 'stale.sock');
    const dead = new PeerProcess(unixSetUp(), { role: 'listen' }, { path: file });
    await dead.reported('listening');
    await expect(transport().listen({ path: file })).rejects.toMatchObject({
      code: 'ERR_VERBMQ_ADDRESS_IN_USE',
    });
    dead.kill('SIGKILL');
    await dead.exited;
    const own = transport();
    await greets(own, await own.listen({ path: file }));
  });

  /** A socket file whose process is gone: what the kernel knows by it is not listened on any more. */
  async function makeStale(file: string): Promise<void> {
    const dead = createServer();
    await new Promise<void>((resolve) => dead.listen(`${file}-`, resolve));
    linkSync(`${file}-`, file);
    await new Promise((resolve) => dead.close(resolve));
  }

  it('that were left behind are taken over by one listener of many, which keeps its file', async () => {
    const file = path.join(directory, 'race.sock');
    for (let round = 0; round < 20; round++) {
      await makeStale(file);
      const transports = [transport(), transport(), transport(), transport()];
      const outcomes = await Promise.allSettled(transports.map((each) => each.listen({ path: file })));
      const listeners = outcomes.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
      expect(listeners.length).toBe(1);
      for (const each of outcomes)
        if (each.status === 'rejected')
          expect(each.reason).toMatchObject({ code: 'ERR_VERBMQ_ADDRESS_IN_USE' });
      await greets(transports[0] as TcpTransport, listeners[0] as Listener);
      await listeners[0]?.close();
      expect(existsSync(file)).toBe(false);
    }
  });

  it.runIf(process.platform === 'linux')(
    'are not replaced while somebody else looks at them for long',
    async () => {
      const file = path.join(directory, 'watched.sock');
      await makeStale(file);
      const holder = createServer((socket) => void socket.on('error', () => {}));
      const name = await lockName(file);
      await new Promise<void>((resolve) => holder.listen(name, resolve));
      await failure(transport().listen({ path: file }), 'ERR_VERBMQ_ADDRESS_IN_USE');
      const free = path.join(directory, 'free.sock');
      await greets(transport(), await transport().listen({ path: free }));
      holder.close();
      const own = transport();
      await greets(own, await own.listen({ path: file }));
    },
  );

  it('never replace a file that is no socket', async () => {
    const file = path.join(directory, 'precious.txt');
    writeFileSync(file, 'keep me');
    await expect(transport().listen({ path: file })).rejects.toMatchObject({
      code: 'ERR_VERBMQ_ADDRESS_IN_USE',
    });
    expect(readFileSync(file, 'utf8')).toBe('keep me');
  });

  it('with a path that is too long are refused before the kernel cuts it', async () => {
    const long = transport().listen({ path: `/tmp/${'x'.repeat(200)}` });
    await expect(long).rejects.toMatchObject({ code: 'ERR_VERBMQ_INVALID_ADDRESS' });
  });

  it.runIf(process.platform === 'linux')('may be abstract', async () => {
    const own = transport();
    const listener = await own.listen(`unix://@verbmq-test-${process.pid}`);
    await greets(own, listener);
  });

  it('have no TLS', async () => {
    expect(await outcomeOf(() => transport().listen({ path: '/tmp/x' }, { tls: IDENTITY }))).toBe(TypeError);
  });
});

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
