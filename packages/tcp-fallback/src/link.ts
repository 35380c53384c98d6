import type { Socket } from 'node:net';
import type { HostAddress, PathAddress, ResolvedAddress } from '@verbmq/core';
import type { ResolvedConnectionOptions } from '@verbmq/core/transport-kit';
import type { Hello } from './hello.js';
import type { ResolvedWindows } from './options.js';
import { TCP_CAPABILITIES, TcpConnection } from './tcp-connection.js';

/** The three things that this transport runs over. */
export type LinkKind = 'tcp' | 'tls' | 'unix';

/** What connections of one listener, or of one attempt to connect, have in common. */
export interface Link {
  readonly kind: LinkKind;
  readonly address: ResolvedAddress;
  readonly connectionOptions: ResolvedConnectionOptions;
  readonly windows: ResolvedWindows;
}

/** The hello of this side. */
export function ownHello({ connectionOptions, windows }: Link): Hello {
  return { maxMessageBytes: connectionOptions.maxMessageBytes, ...windows };
}

/** The connection over a socket whose handshake is done. What came behind the hello is still to be given to it. */
export function connectionOf(
  link: Link,
  direction: 'in' | 'out',
  socket: Socket,
  { peer }: { readonly peer: Hello },
): TcpConnection {
  const own = ownHello(link);
  const init = {
    kind: link.kind,
    direction,
    options: link.connectionOptions,
    maxMessageBytes: Math.min(own.maxMessageBytes, peer.maxMessageBytes),
    capabilities: TCP_CAPABILITIES,
    localAddress: endpoint(link, socket.localAddress, socket.localPort),
    remoteAddress: endpoint(link, socket.remoteAddress, socket.remotePort),
  };
  return new TcpConnection(socket, init, own, peer);
}

/** A Unix socket has one name for both ends: the connecting side has none of its own. */
function endpoint(
  { address }: Link,
  host: string | undefined,
  port: number | undefined,
): HostAddress | PathAddress {
  if ('path' in address) return { path: address.path };
  return { host: host ?? address.host, port: port ?? address.port };
}

/** For the words of errors. */
export function describeEndpoint(address: ResolvedAddress): string {
  if ('path' in address) return `the Unix socket ${address.path.replace(/^\0/, '@')}`;
  return `${address.host} port ${address.port}`;
}
