import { VerbmqError } from '@verbmq/core';
import type { ResolvedConnectionOptions } from '@verbmq/core/transport-kit';
import { EventKind, type Handle } from './binding.js';
import { toConnectError } from './native-error.js';
import { RdmaConnection } from './rdma-connection.js';
import type { Endpoint, RdmaEngine } from './rdma-engine.js';
import { Slab } from './slab.js';

export interface AttemptInit {
  readonly engine: RdmaEngine;
  /** An IP address. */
  readonly host: string;
  readonly port: number;
  readonly localHost: string | undefined;
  readonly timeoutMs: number;
  readonly options: ResolvedConnectionOptions;
  readonly signal: AbortSignal;
  /** Called with the connection before any of its messages is delivered. */
  readonly opened: (connection: RdmaConnection) => void;
}

/** One attempt to connect to one address. Gives everything back when it fails. */
export function connectOnce(init: AttemptInit): Promise<RdmaConnection> {
  return new Promise((resolve, reject) => {
    try {
      new ConnectAttempt(init, resolve, reject).start();
    } catch (error) {
      reject(toConnectError(error, describeTarget(init)));
    }
  });
}

class ConnectAttempt implements Endpoint {
  handle: Handle = 0;
  readonly #init: AttemptInit;
  readonly #slab: Slab;
  readonly #resolve: (connection: RdmaConnection) => void;
  readonly #reject: (error: unknown) => void;

  constructor(
    init: AttemptInit,
    resolve: (connection: RdmaConnection) => void,
    reject: (error: unknown) => void,
  ) {
    this.#init = init;
    this.#slab = new Slab(init.engine.addon, init.engine.options, init.options.maxMessageBytes);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(): void {
    const { engine, host, port, localHost, timeoutMs, signal } = this.#init;
    this.handle = engine.native.connect({
      host,
      port,
      timeoutMs,
      ...(localHost === undefined ? {} : { localHost }),
      ...this.#slab.memory,
    });
    engine.register(this);
    signal.addEventListener('abort', this.#cancel, { once: true });
  }

  /** The kernel still has to be told to forget the attempt; `closed` comes when it has. */
  readonly #cancel = (): void => {
    this.#init.engine.native.destroy(this.handle);
  };

  messageArrived(): void {
    // No message comes before `connected`, which puts the connection in this object's place.
  }

  eventArrived(kind: number, a: number): void {
    // An attempt that was given up may still hear of what its peer has sent. Only `closed` ends it.
    if (kind !== EventKind.connected && kind !== EventKind.closed) return;
    const { engine, signal, options } = this.#init;
    signal.removeEventListener('abort', this.#cancel);
    if (kind === EventKind.connected && signal.aborted) {
      // Given up meanwhile; its end is on its way.
      engine.native.takeDescription(this.handle);
      return;
    }
    if (kind === EventKind.connected) {
      const connection = new RdmaConnection({
        engine,
        handle: this.handle,
        slab: this.#slab,
        direction: 'out',
        options,
        description: engine.native.takeDescription(this.handle),
      });
      engine.register(connection);
      this.#init.opened(connection);
      this.#resolve(connection);
      return;
    }
    engine.unregister(this);
    // Also of one that was given up: it may have failed by itself before, and the addon keeps it for who asks.
    const failure = a === 1 ? engine.native.takeFailure(this.handle) : undefined;
    if (signal.aborted) {
      this.#reject(signal.reason);
      return;
    }
    this.#reject(
      failure === undefined
        ? new VerbmqError('ERR_VERBMQ_CONNECT_FAILED', `${describeTarget(this.#init)}: the attempt ended`)
        : toConnectError(failure, describeTarget(this.#init)),
    );
  }
}

function describeTarget({ host, port }: AttemptInit): string {
  return `cannot connect to ${host} port ${port}`;
}
