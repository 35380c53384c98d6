import { existsSync, linkSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Listener } from '@verbmq/core';
import type { TcpTransport } from '@verbmq/tcp-fallback';
import { afterAll, describe, expect, it } from 'vitest';
import { failure, outcomeOf } from '../../../test/support/expectations.js';
import { PeerProcess } from '../../../test/support/peer-process.js';
import { unixSetUp } from '../../../test/support/transports/tcp.js';
import { lockName } from '../dist/path-lock.js';
import { greets, IDENTITY, transport } from './greeting.js';

const directory = mkdtempSync(path.join(tmpdir(), 'verbmq-tcp-'));
afterAll(() => rmSync(directory, { recursive: true }));

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

  it('whose path is too long are refused alike by both sides, which say so', async () => {
    const address = { path: path.join(directory, 'x'.repeat(200)) };
    for (const attempt of [transport().listen(address), transport().connect(address)]) {
      await expect(attempt).rejects.toMatchObject({ code: 'ERR_VERBMQ_INVALID_ADDRESS' });
      await expect(attempt).rejects.toThrow(/at most 107 bytes/);
    }
  });

  it('whose directory does not exist are not listened on, and that is said', async () => {
    const failed = transport().listen({ path: path.join(directory, 'missing', 'a.sock') });
    await expect(failed).rejects.toMatchObject({ code: 'ERR_VERBMQ_LISTEN_FAILED' });
    await expect(failed).rejects.toThrow(/directory does not exist/);
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
