import { readFileSync } from 'node:fs';
import type net from 'node:net';
import { createServer } from 'node:net';
import type { Listener } from '@verbmq/core';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { expect, onTestFinished } from 'vitest';
import { nextConnection } from '../../../test/support/pair.js';

function pem(name: string): string {
  return readFileSync(new URL(`../../../test/support/certificate/${name}.pem`, import.meta.url), 'utf8');
}
/** A server, and who trusts it. */
export const IDENTITY = { key: pem('key'), cert: pem('certificate') };
export const TRUST = { ca: IDENTITY.cert };

/** Closed when the test is over. */
export function transport(): TcpTransport {
  const made = new TcpTransport();
  onTestFinished(() => made.close());
  return made;
}

/** Connects, and is heard. */
export async function greets(
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

/** A server that accepts and never speaks, and how many sockets it has open. */
export async function silentServer(): Promise<{ port: number; open: () => number }> {
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
