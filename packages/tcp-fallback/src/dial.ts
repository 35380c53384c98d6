import net, { type Socket } from 'node:net';
import tls, { type ConnectionOptions as TlsClientOptions } from 'node:tls';
import type { ResolvedAddress } from '@verbmq/core';
import { connectError } from '@verbmq/core/transport-kit';
import { checkPath } from './endpoints.js';
import { describeEndpoint, type LinkKind } from './link.js';
import { connectReusingMemory } from './read-memory.js';
import { checkClientOptions, tlsConnectError, withUsableIdentity } from './tls.js';

/**
 * Opens a socket to an address: connected, and secured where TLS is asked for. A name with several addresses is tried
 * on all of them (happy eyeballs, RFC 8305). Rejects when `signal` aborts, with its reason; nothing is left then.
 */
export function dial(
  kind: LinkKind,
  address: ResolvedAddress,
  tlsOptions: TlsClientOptions | undefined,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = open(kind, address, tlsOptions);
    // Errors after this promise has settled are for whoever has the socket; none of them may go unheard.
    socket.on('error', () => {});
    const ready = kind === 'tls' ? 'secureConnect' : 'connect';
    const detach = (): void => {
      socket.off(ready, onReady).off('error', onError).off('close', onClose);
      signal.removeEventListener('abort', onAbort);
    };
    const fail = (error: unknown): void => {
      detach();
      socket.destroy();
      reject(error);
    };
    const onReady = (): void => {
      detach();
      resolve(socket);
    };
    const onError = (error: Error): void => {
      fail(kind === 'tls' ? tlsConnectError(address, error) : connectError(describeEndpoint(address), error));
    };
    const onClose = (): void =>
      fail(connectError(describeEndpoint(address), new Error('the socket was closed')));
    const onAbort = (): void => fail(signal.reason);
    socket.on(ready, onReady).on('error', onError).on('close', onClose);
    signal.addEventListener('abort', onAbort);
  });
}

function open(kind: LinkKind, address: ResolvedAddress, tlsOptions: TlsClientOptions | undefined): Socket {
  if ('path' in address) {
    checkPath(address.path);
    return connectReusingMemory({ path: address.path, allowHalfOpen: true });
  }
  const endpoint = { host: address.host, port: address.port, autoSelectFamily: true };
  if (kind === 'tcp') return connectReusingMemory({ ...endpoint, allowHalfOpen: true, noDelay: true });
  const options = { ...serverName(address.host), ...defined(tlsOptions) };
  checkClientOptions(options);
  const socket = withUsableIdentity(() => tls.connect({ ...options, ...endpoint }));
  socket.setNoDelay(true);
  return socket;
}

/** Without those that are `undefined`, which Node takes for given ones. */
function defined(options: TlsClientOptions = {}): TlsClientOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** SNI takes names only, not IP addresses (RFC 6066); `tls.connect` would take `localhost` where none is given. */
function serverName(host: string): TlsClientOptions {
  return net.isIP(host) === 0 ? { servername: host } : {};
}
