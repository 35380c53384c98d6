import { lookup } from 'node:dns/promises';
import { networkInterfaces } from 'node:os';
import type { VerbmqError } from '@verbmq/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { occupyThreads } from '../../../test/support/occupied-threads.js';
import { until } from '../../../test/support/until.js';
import { greets, silentServer, TRUST, transport } from './greeting.js';

/** Containers often have no IPv6, though /etc/hosts names `::1`. */
const hasIPv6 = Object.values(networkInterfaces()).some((of) => of?.some(({ address }) => address === '::1'));

it('an attempt to listen does not outlive its transport, however long the resolver takes', async () => {
  onTestFinished(occupyThreads());
  const own = transport();
  const listening = own.listen('tcp://localhost:0').catch((error: VerbmqError) => error.code);
  await own.close();
  expect(await listening).toBe('ERR_VERBMQ_CLOSED');
});

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
    if (hasIPv6 && resolved.some(({ family }) => family === 6))
      await greets(own, listener, `tcp://[::1]:${port}`);
  });

  it('of IPv6 are given as such', async (context) => {
    if (!hasIPv6) context.skip('this machine has no IPv6');
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
