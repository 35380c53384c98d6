import type { Server, Socket } from 'node:net';
import { type ErrorCode, formatAddress, Listener, VerbmqError } from '@verbmq/core';
import { closeEndpoints, type Endpoints } from './endpoints.js';
import { farewell, gone } from './farewell.js';
import { type Handshake, shakeHands } from './handshake.js';
import { encodeRefusal, RefusalCode } from './hello.js';
import { connectionOf, type Link, ownHello } from './link.js';
import type { TcpConnection } from './tcp-connection.js';

export interface TcpListenerLimits {
  /** Sockets at a time, those in their handshake included. */
  readonly maxConnections: number;
  readonly maxHandshakes: number;
}

/** Connections that are being refused in words at a time; further ones are cut off without. */
const MAX_REFUSALS = 128;

/**
 * Accepts sockets, makes connections of those that complete the handshake in time, and refuses the others in words.
 * Sockets in their handshake are bounded in number.
 */
export class TcpListener extends Listener {
  readonly #servers: readonly Server[];
  readonly #link: Link;
  readonly #limits: TcpListenerLimits;
  readonly #opened: (connection: TcpConnection) => void;
  readonly #sockets = new Set<Socket>();
  readonly #handshakes = new Map<Handshake, Socket>();
  /** Those that are being refused. */
  readonly #refused = new Set<Socket>();
  #closing = false;

  constructor(
    { servers, address }: Endpoints,
    link: Link,
    limits: TcpListenerLimits,
    opened: (connection: TcpConnection) => void,
  ) {
    super({
      kind: link.kind,
      address,
      url: formatAddress(link.kind, address),
      logger: link.connectionOptions.logger,
    });
    this.#servers = servers;
    this.#link = link;
    this.#limits = limits;
    this.#opened = opened;
    // Failures to accept (no file descriptors left, say) concern one connection, not the listener.
    for (const server of servers)
      server.on('error', (cause) => this.failed('a connection was not accepted', cause));
  }

  /** @internal An incoming connection failed before its handshake. */
  failed(what: string, cause: Error): void {
    this._acceptFailed(new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', `${what}: ${cause.message}`, { cause }));
  }

  /** @internal Whether one more socket may begin its handshake. */
  hasRoomForHandshake(inProgress = this.#handshakes.size): boolean {
    return !this.#closing && inProgress < this.#limits.maxHandshakes;
  }

  /** @internal Takes a socket that is ready for the handshake. */
  acceptSocket(socket: Socket): void {
    if (this.#closing) this.#refuse(socket, RefusalCode.CLOSING, 'the listener is closing');
    else if (this.#sockets.size >= this.#limits.maxConnections) {
      this.#refuse(
        socket,
        RefusalCode.OVERLOADED,
        `it has ${this.#sockets.size} connections already (maxConnections)`,
      );
    } else if (!this.hasRoomForHandshake()) {
      this.#refuse(
        socket,
        RefusalCode.OVERLOADED,
        `${this.#handshakes.size} handshakes are in progress (maxHandshakes)`,
      );
    } else this.#shakeHands(socket);
  }

  protected override async _close(): Promise<void> {
    this.#closing = true;
    closeEndpoints(this.#servers);
    const ending = [...this.#refused, ...this.#handshakes.values()];
    for (const handshake of this.#handshakes.keys()) {
      handshake.cancel(RefusalCode.CLOSING, 'the listener is closing');
    }
    this.#handshakes.clear();
    await Promise.all(ending.map(gone));
  }

  #shakeHands(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    const options = {
      direction: 'in',
      own: ownHello(this.#link),
      timeoutMs: this.#link.connectionOptions.handshakeTimeoutMs,
    } as const;
    const handshake = shakeHands(socket, options, (error, result) => {
      this.#handshakes.delete(handshake);
      if (result === undefined) {
        this._acceptFailed(error as VerbmqError);
        return;
      }
      const connection = connectionOf(this.#link, 'in', socket, result);
      this.#opened(connection);
      this._accept(connection);
      if (result.rest.byteLength > 0) connection.receiveChunk(result.rest);
    });
    this.#handshakes.set(handshake, socket);
  }

  /** @internal Takes a secured socket of a client whose certificate does not let it in. */
  refuseCertificate(socket: Socket, reason: string): void {
    this.#refuse(socket, RefusalCode.CERTIFICATE, reason, 'ERR_VERBMQ_TLS');
  }

  #refuse(socket: Socket, code: number, reason: string, as: ErrorCode = 'ERR_VERBMQ_OVERLOADED'): void {
    this._acceptFailed(new VerbmqError(as, `a connection was refused: ${reason}`));
    socket.on('error', () => {});
    if (this.#refused.size >= MAX_REFUSALS) {
      socket.destroy();
      return;
    }
    this.#refused.add(socket);
    socket.once('close', () => this.#refused.delete(socket));
    farewell(socket, encodeRefusal(code, reason));
  }
}
