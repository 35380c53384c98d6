import net, { type Server, type Socket } from 'node:net';
import tls, { type TLSSocket, type TlsOptions, type Server as TlsServer } from 'node:tls';
import { closeEndpoints, openEndpoints } from './endpoints.js';
import type { Link } from './link.js';
import type { TcpConnection } from './tcp-connection.js';
import { TcpListener, type TcpListenerLimits } from './tcp-listener.js';
import { withUsableIdentity } from './tls.js';

/** Listens, and brings every socket to the listener: at once, or when TLS is established on it. */
export async function openListener(
  link: Link,
  limits: TcpListenerLimits,
  tlsOptions: TlsOptions | undefined,
  signal: AbortSignal,
  connected: (connection: TcpConnection) => void,
): Promise<TcpListener> {
  // What cannot be used is found before anything is listened on.
  const tlsServer = tlsOptions && createTlsServer(tlsOptions, link.connectionOptions.handshakeTimeoutMs);
  // With several addresses the first may bring sockets before the last is listened on.
  const early: Socket[] = [];
  let accept = (socket: Socket): void => {
    early.push(socket.on('error', () => {}));
  };
  // Below TLS a half-open socket would keep a peer that left within the TLS handshake until that times out.
  const allowHalfOpen = tlsOptions === undefined;
  const create = (): Server => net.createServer({ allowHalfOpen, noDelay: true }, (socket) => accept(socket));
  const opened: Server[] = [];
  try {
    const endpoints = await openEndpoints(link.address, create, signal);
    opened.push(...endpoints.servers);
    const listener = new TcpListener(endpoints, link, limits, connected);
    accept =
      tlsServer === undefined
        ? (socket) => listener.acceptSocket(socket)
        : tlsAcceptor(listener, tlsServer, demandsCertificates(tlsOptions as TlsOptions));
    for (const socket of early) accept(socket);
    return listener;
  } catch (error) {
    closeEndpoints(opened);
    for (const socket of early) socket.destroy();
    throw error;
  }
}

/**
 * It listens on nothing itself: it is given the sockets. Where clients must have a certificate it still lets in those that have none
 * that is good: Node would hang up on them without a word, and they would come again.
 */
function createTlsServer(options: TlsOptions, handshakeTimeoutMs: number): TlsServer {
  const own = demandsCertificates(options) ? { ...options, rejectUnauthorized: false } : options;
  return withUsableIdentity(() => tls.createServer({ handshakeTimeout: handshakeTimeoutMs, ...own }));
}

function demandsCertificates({ requestCert, rejectUnauthorized }: TlsOptions): boolean {
  return requestCert === true && rejectUnauthorized !== false;
}

/** Puts TLS before the listener. TLS handshakes count as handshakes, and take no longer. */
function tlsAcceptor(listener: TcpListener, server: TlsServer, demands: boolean): (socket: Socket) => void {
  const inProgress = new Map<string, Socket>();
  server.on('secureConnection', (secured) => {
    inProgress.delete(nameOf(secured));
    const refusal = demands ? certificateRefusal(secured) : undefined;
    if (refusal !== undefined) listener.refuseCertificate(secured, refusal);
    else listener.acceptSocket(secured);
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

/**
 * Why a client is not let in, if it is not. That it has a certificate must be asked beside `authorized`: Node takes every TLS 1.3
 * session that is resumed without one for authorized, and who was refused once has a ticket to resume with.
 */
function certificateRefusal(secured: TLSSocket): string | undefined {
  if (secured.getPeerX509Certificate() === undefined)
    return 'it demands a client certificate: pass tls: { key, cert }';
  if (secured.authorized) return undefined;
  return `it does not accept the client certificate (${secured.authorizationError})`;
}

/** Tells the sockets of one listener apart, the secured one by the name of the plain one below it. */
function nameOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`;
}
