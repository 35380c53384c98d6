import type { ConnectionOptions as TlsClientOptions, TlsOptions } from 'node:tls';
import type { ConnectionOptions, ConnectOptions, ListenOptions } from '@verbmq/core';
import { checkInteger } from '@verbmq/core/transport-kit';
import { MAX_WINDOW_BYTES, MIN_WINDOW_BYTES } from './hello.js';

/** Limits that only this transport has. */
export interface TcpWindowOptions {
  /**
   * How much the peer may send before the application takes it, in bytes; each frame counts 128 more than its payload.
   * It bounds the memory of an application that does not read, and the rate on long paths (window ÷ round trip).
   * From 64 KiB to 1 GiB. Default 4 MiB.
   */
  readonly receiveWindowBytes?: number;
  /** How much one-sided work the peer may have in progress here, in bytes; counted alike. Default 1 MiB. */
  readonly oneSidedWindowBytes?: number;
}

/** Defaults for all connections of a transport. */
export interface TcpTransportOptions extends ConnectionOptions, TcpWindowOptions {}

/** What `listen` takes over TCP, TLS and Unix sockets. */
export interface TcpListenOptions extends ListenOptions, TcpWindowOptions {
  /** Listens for TLS: at least a key and a certificate; what `tls.createServer` takes. */
  readonly tls?: TlsOptions;
  /** Connections beyond so many are refused with `ERR_VERBMQ_OVERLOADED`. Default: no limit. */
  readonly maxConnections?: number;
  /** Handshakes that may be in progress; further connections are refused likewise. Default 1,024. */
  readonly maxHandshakes?: number;
}

/** What `connect` takes over TCP, TLS and Unix sockets. */
export interface TcpConnectOptions extends ConnectOptions, TcpWindowOptions {
  /** Connects by TLS: certificates and the like; what `tls.connect` takes, but for the endpoint. */
  readonly tls?: TlsClientOptions;
}

export type ResolvedWindows = Required<TcpWindowOptions>;

const DEFAULTS: ResolvedWindows = { receiveWindowBytes: 4 * 1024 * 1024, oneSidedWindowBytes: 1024 * 1024 };

/** @throws TypeError or RangeError that names the option. */
export function resolveWindows(options: TcpWindowOptions, base: ResolvedWindows = DEFAULTS): ResolvedWindows {
  const { receiveWindowBytes = base.receiveWindowBytes, oneSidedWindowBytes = base.oneSidedWindowBytes } =
    options;
  return {
    receiveWindowBytes: checkInteger(
      'receiveWindowBytes',
      receiveWindowBytes,
      MIN_WINDOW_BYTES,
      MAX_WINDOW_BYTES,
    ),
    oneSidedWindowBytes: checkInteger(
      'oneSidedWindowBytes',
      oneSidedWindowBytes,
      MIN_WINDOW_BYTES,
      MAX_WINDOW_BYTES,
    ),
  };
}
