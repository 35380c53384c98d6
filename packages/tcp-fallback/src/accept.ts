import net, { type Server, type Socket } from 'node:net';
import tls, { type TlsOptions } from 'node:tls';
import { openEndpoints } from './endpoints.js';
import type { Link } from './link.js';
import type { TcpConnection } from './tcp-connection.js';
import { TcpListener, type TcpListenerLimits } from './tcp-listener.js';

/** Listens, and brings every socket to the listener: at once, or when TLS is established on it. */
export async function openListener(
  link: Link,
  limits: TcpListenerLimits,
  tlsOptions: TlsOptions | undefined,
  opened: (connection: TcpConnection) => void,
): Promise<TcpListener> {
  // With several addresses the first may bring sockets before the last is listened on.
  const early: Socket[] = [];
  let accept = (socket: Socket): void => {
    early.push(socket.on('error', () => {}));
  };
  // Below TLS a half-open socket would keep a peer that left within the TLS handshake until that times out.
  const allowHalfOpen = tlsOptions === undefined;
  const create = (): Server => net.createServer({ allowHalfOpen, noDelay: true }, (socket) => accept(socket));
  const endpoints = await openEndpoints(link.address, create).catch((error: unknown) => {
    for (const socket of early) socket.destroy();
    throw error;
  });
  const listener = new TcpListener(endpoints, link, limits, opened);
  accept =
    tlsOptions === undefined
      ? (socket) => listener.acceptSocket(socket)
      : tlsAcceptor(listener, tlsOptions, link.connectionOptions.handshakeTimeoutMs);
  for (const socket of early) accept(socket);
  return listener;
}

/** Puts TLS before the listener. TLS handshakes count as handshakes, and take no longer. */
function tlsAcceptor(
  listener: TcpListener,
  options: TlsOptions,
  handshakeTimeoutMs: number,
): (socket: Socket) => void {
  const inProgress = new Map<string, Socket>();
  const server = tls.createServer({ handshakeTimeout: handshakeTimeoutMs, ...options });
  server.on('secureConnection', (secured) => {
    inProgress.delete(nameOf(secured));
    listener.acceptSocket(secured);
  });
  server.on('tlsClientError', (error, secured) => {
    listener.failed('TLS with a connecting peer failed', error);
    secured.destroy();
  });
  void listener.closed.then(() => {
    for (const socket of inProgress.values()) socket.destroy();
  });
  return (socket) => {
    const name = nameOf(socket);
    // What could be said to the peer here would not be TLS, and so no words to it.
    if (!listener.hasRoomForHandshake(inProgress.size)) {
      listener.failed(
        'a connection was cut off',
        new Error(`${inProgress.size} TLS handshakes are in progress`),
      );
      socket.destroy();
      return;
    }
    inProgress.set(name, socket);
    socket.once('close', () => {
      if (inProgress.get(name) === socket) inProgress.delete(name);
    });
    server.emit('connection', socket);
  };
}

/** Tells the sockets of one listener apart, the secured one by the name of the plain one below it. */
function nameOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`;
}
