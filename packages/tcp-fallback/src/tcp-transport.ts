import { type Connection, type Listener, type ProbeResult, Transport } from '@verbmq/core';
import { type ConnectAttempt, checkInteger, type ListenRequest } from '@verbmq/core/transport-kit';
import { openListener } from './accept.js';
import { dial } from './dial.js';
import { shakeHands } from './handshake.js';
import { connectionOf, type Link, ownHello } from './link.js';
import {
  type ResolvedWindows,
  resolveWindows,
  type TcpConnectOptions,
  type TcpListenOptions,
  type TcpTransportOptions,
} from './options.js';
import { checkServerIdentity, linkKindOf } from './tls.js';

const DEFAULT_MAX_HANDSHAKES = 1024;

/**
 * Messages over TCP, TLS or a Unix socket, with Node's own sockets.
 *
 * ```ts
 * const transport = new TcpTransport();
 * const listener = await transport.listen('tcp://127.0.0.1:0');
 * listener.onConnection((connection) => connection.onMessage((message) => void connection.send(message.data)));
 * const connection = await transport.connect(listener.url);
 * ```
 */
export class TcpTransport extends Transport<TcpListenOptions, TcpConnectOptions, Record<string, never>> {
  readonly kind = 'tcp';
  readonly schemes = ['tcp', 'tls', 'unix'] as const;
  readonly #windows: ResolvedWindows;

  constructor(options: TcpTransportOptions = {}) {
    super(options);
    this.#windows = resolveWindows(options);
  }

  /** Sockets are always there. */
  async probe(): Promise<ProbeResult<Record<string, never>>> {
    return { available: true, details: {} };
  }

  protected override async _listen(request: ListenRequest<TcpListenOptions>): Promise<Listener> {
    const { options, address } = request;
    const link = this.#link(request);
    const limits = {
      maxConnections: limit('maxConnections', options.maxConnections, Number.MAX_SAFE_INTEGER),
      maxHandshakes: limit('maxHandshakes', options.maxHandshakes, DEFAULT_MAX_HANDSHAKES),
    };
    const tls = link.kind === 'tls' ? checkServerIdentity(options.tls) : undefined;
    return openListener({ ...link, address }, limits, tls, request.signal, (connection) =>
      this._opened(connection),
    );
  }

  protected override async _connect(attempt: ConnectAttempt<TcpConnectOptions>): Promise<Connection> {
    const { signal } = attempt;
    const link = this.#link(attempt);
    const socket = await dial(link.kind, link.address, attempt.options.tls, signal);
    return new Promise((resolve, reject) => {
      const options = {
        direction: 'out',
        own: ownHello(link),
        timeoutMs: link.connectionOptions.handshakeTimeoutMs,
      } as const;
      const onAbort = (): void => {
        handshake.cancel(0, '');
        reject(signal.reason);
      };
      const handshake = shakeHands(socket, options, (error, result) => {
        signal.removeEventListener('abort', onAbort);
        if (result === undefined) {
          reject(error);
          return;
        }
        const connection = connectionOf(link, 'out', socket, result);
        this._opened(connection);
        resolve(connection);
        // What came right behind the hello waits in the connection until the application asks for it.
        if (result.rest.byteLength > 0) connection.receiveChunk(result.rest);
      });
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort);
    });
  }

  #link(request: ListenRequest<TcpListenOptions> | ConnectAttempt<TcpConnectOptions>): Link {
    const { address, options, connectionOptions } = request;
    return {
      kind: linkKindOf(address, options.tls),
      address,
      connectionOptions,
      windows: resolveWindows(options, this.#windows),
    };
  }
}

function limit(name: string, value: number | undefined, byDefault: number): number {
  return checkInteger(name, value ?? byDefault, 1, Number.MAX_SAFE_INTEGER);
}
