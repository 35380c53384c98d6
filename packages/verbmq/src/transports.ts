import {
  type Address,
  type Connection,
  type Listener,
  parseAddress,
  type Scheme,
  type Transport,
  VerbmqError,
} from '@verbmq/core';
import type { AutoConnection } from '@verbmq/core/auto';
import {
  type RdmaConnectOptions,
  type RdmaListenOptions,
  RdmaTransport,
  type RdmaTransportOptions,
} from '@verbmq/native';
import {
  type TcpConnectOptions,
  type TcpListenOptions,
  TcpTransport,
  type TcpTransportOptions,
} from '@verbmq/tcp-fallback';
import { VerbmqTransport, type VerbmqTransportOptions } from './verbmq-transport.js';

/** The transports by the URL schemes that name them. */
const MAKERS: Readonly<Partial<Record<Scheme, (options?: AnyTransportOptions) => Transport>>> = {
  tcp: (options) => new TcpTransport(options),
  tls: (options) => new TcpTransport(options),
  unix: (options) => new TcpTransport(options),
  rdma: (options) => new RdmaTransport(options),
  verbmq: (options) => new VerbmqTransport(options),
};

/** What `createTransport` takes: options of the transport that the address names. Those of the others do nothing. */
export type AnyTransportOptions = TcpTransportOptions & RdmaTransportOptions & VerbmqTransportOptions;
/** What `listen` takes: options of the transport that it makes, and of the listener. */
export type AnyListenOptions = AnyTransportOptions & TcpListenOptions & RdmaListenOptions;
/** What `connect` takes, likewise. */
export type AnyConnectOptions = AnyTransportOptions & TcpConnectOptions & RdmaConnectOptions;

/**
 * The transport that an address asks for: by its scheme, or TCP where it has none.
 * @param address a URL such as `rdma://10.0.0.1:7000`, an endpoint, or a bare scheme such as `'rdma'`.
 * @throws VerbmqError `ERR_VERBMQ_INVALID_ADDRESS` when nothing here takes such an address.
 */
export function createTransport(address: Address, options?: AnyTransportOptions): Transport {
  const scheme = schemeOf(address);
  const make = MAKERS[scheme];
  if (make === undefined) {
    const known = Object.keys(MAKERS).map((name) => `${name}://`);
    throw new VerbmqError(
      'ERR_VERBMQ_INVALID_ADDRESS',
      `no transport here takes ${scheme}:// addresses; use one of ${known.join(', ')}`,
    );
  }
  return make(options);
}

/**
 * Listens on `address` with the transport that it names. The transport lives as long as the listener and the
 * connections that it accepted: closing the listener ends none of them.
 */
export async function listen(address: Address, options?: AnyListenOptions): Promise<Listener> {
  const transport = createTransport(address, options);
  const listener = await transport
    .listen(address, options)
    .catch((error: unknown) => closeAndThrow(transport, error));
  transport.closeWhenUnused();
  return listener;
}

/**
 * Connects to `address` with the transport that it names. The transport lives as long as the connection. What a `verbmq://` address
 * gives knows its `path`.
 */
export function connect(address: `verbmq://${string}`, options?: AnyConnectOptions): Promise<AutoConnection>;
export function connect(address: Address, options?: AnyConnectOptions): Promise<Connection>;
export async function connect(address: Address, options?: AnyConnectOptions): Promise<Connection> {
  const transport = createTransport(address, options);
  const connection = await transport
    .connect(address, options)
    .catch((error: unknown) => closeAndThrow(transport, error));
  transport.closeWhenUnused();
  return connection;
}

function schemeOf(address: Address): Scheme {
  if (typeof address === 'string' && Object.hasOwn(MAKERS, address)) return address as Scheme;
  const resolved = parseAddress(address);
  return resolved.scheme ?? ('path' in resolved ? 'unix' : 'tcp');
}

async function closeAndThrow(transport: Transport, error: unknown): Promise<never> {
  await transport.close();
  throw error;
}
