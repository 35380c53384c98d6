import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Address, Connection, Listener } from '@verbmq/core';
import { type TcpConnectOptions, type TcpListenOptions, TcpTransport } from '@verbmq/tcp-fallback';
import { afterAll } from 'vitest';
import type { SetUp } from '../set-up.js';

const shared = {
  capabilities: {
    oneSided: 'emulated',
    atomics: 'emulated',
    largeMessages: 'native',
    zeroCopySend: 'emulated',
  },
  boundaries: [1024, 16 * 1024, 64 * 1024, 128 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024],
  /** The receive window (4 MiB), and the high-water mark (1 MiB) with the message that crosses it. */
  unreadBytes: 5.5 * 1024 * 1024,
  crossesProcesses: true,
} as const;

const peer = { module: '@verbmq/tcp-fallback', name: 'TcpTransport', options: {} };

export function tcpSetUp(host = '127.0.0.1'): SetUp {
  return {
    ...shared,
    kind: 'tcp',
    peer,
    createTransport: (options) => new TcpTransport(options),
    listenAddress: () => ({ host, port: 0 }),
    deadAddress: () => ({ host, port: 1 }),
  };
}

const certificate = (name: string): string =>
  readFileSync(new URL(`../certificate/${name}.pem`, import.meta.url), 'utf8');

/** A TCP transport that listens and connects by TLS only. */
class TlsTransport extends TcpTransport {
  override listen(address: Address, options?: TcpListenOptions): Promise<Listener> {
    return super.listen(address, { ...options, tls: TLS.listen });
  }
  override connect(address: Address, options?: TcpConnectOptions): Promise<Connection> {
    return super.connect(address, { ...options, tls: TLS.connect });
  }
}

const TLS = {
  listen: { key: certificate('key'), cert: certificate('certificate') },
  connect: { ca: certificate('certificate') },
};

export function tlsSetUp(): SetUp {
  return {
    ...tcpSetUp(),
    kind: 'tls',
    peer: { ...peer, listenOptions: { tls: TLS.listen }, connectOptions: { tls: TLS.connect } },
    createTransport: (options) => new TlsTransport(options),
  };
}

export function unixSetUp(): SetUp {
  const directory = mkdtempSync(path.join(tmpdir(), 'verbmq-'));
  afterAll(() => rmSync(directory, { recursive: true }));
  let sockets = 0;
  return {
    ...tcpSetUp(),
    kind: 'unix',
    listenAddress: () => ({ path: path.join(directory, `${++sockets}.sock`) }),
    deadAddress: () => ({ path: path.join(directory, 'nobody.sock') }),
  };
}
