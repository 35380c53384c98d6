import { type Address, parseAddress, type ResolvedAddress, type Scheme } from './address.js';
import type { Connection } from './connection.js';
import { channels } from './diagnostics.js';
import { VerbmqError } from './errors.js';
import type { Listener } from './listener.js';
import {
  type ConnectionOptions,
  checkInteger,
  checkSignal,
  MAX_TIMER_MS,
  type ResolvedConnectionOptions,
  resolveConnectionOptions,
} from './options.js';
import type { TransportStats } from './stats.js';

/** Whether a transport can be used here, and if not, why not and what to do about it. */
export type ProbeResult<Details = unknown> =
  | { readonly available: true; readonly details: Details }
  | {
      readonly available: false;
      /** Stable and machine-readable: `no-device`, `library-missing`, `memlock`, … */
      readonly code: string;
      /** What was found, in a sentence. */
      readonly reason: string;
      /** What to do about it, in a sentence. */
      readonly remedy: string;
      /** The options name a thing that is not there: who could do without RDMA must say so, and not pass over it in silence. */
      readonly misnamed?: true;
    };

/** What every `listen` takes: options of the connections that it accepts. */
export type ListenOptions = ConnectionOptions;

/** What every `connect` takes. */
export interface ConnectOptions extends ConnectionOptions {
  /** Ends the attempt; `connect` then rejects with `ERR_VERBMQ_CANCELLED`, whose cause is the signal's reason. */
  readonly signal?: AbortSignal;
  /** How long the attempt may take, handshake included, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
}

/** What a transport gets of an attempt to connect. */
export interface ConnectAttempt<Options> {
  readonly address: ResolvedAddress;
  /** As the caller gave them, for options of this transport alone. */
  readonly options: Options;
  readonly connectionOptions: ResolvedConnectionOptions;
  /** When it aborts, give up and reject with its reason, which is a {@link VerbmqError}. */
  readonly signal: AbortSignal;
}

/** What a transport gets of a request to listen. */
export interface ListenRequest<Options> {
  readonly address: ResolvedAddress;
  readonly options: Options;
  readonly connectionOptions: ResolvedConnectionOptions;
  /** When it aborts, give up and reject with its reason, which is a {@link VerbmqError}: the transport is being closed. */
  readonly signal: AbortSignal;
}

const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;

/** A way to reach peers. Holds nothing of the system until `listen` or `connect` is called. */
export abstract class Transport<
  L extends ListenOptions = ListenOptions,
  C extends ConnectOptions = ConnectOptions,
  Details = unknown,
> implements AsyncDisposable
{
  /** `tcp`, `rdma`, `memory`, … */
  abstract readonly kind: string;
  /** The URL schemes that it takes; addresses without a scheme are always taken. */
  abstract readonly schemes: readonly Scheme[];

  protected readonly _options: ResolvedConnectionOptions;

  #closing: Promise<void> | undefined;
  #closesWhenUnused = false;
  readonly #listeners = new Set<Listener>();
  readonly #connections = new Set<Connection>();
  /** To listen, and to connect: `close` ends them, and waits until nothing is left of them. */
  readonly #attempts = new Map<AbortController, Promise<Listener | Connection>>();
  readonly #past = { messagesSent: 0, bytesSent: 0, messagesReceived: 0, bytesReceived: 0 };

  constructor(options: ConnectionOptions = {}) {
    this._options = resolveConnectionOptions(options);
  }

  /**
   * Whether the options name hardware of this machine, a device, say, so that `probe` may find that it is not there (`misnamed`). Who could do
   * without this transport waits for `probe` then.
   */
  get namesHardware(): boolean {
    return false;
  }

  /** Whether this transport works here. Never rejects; tries for real, and gives everything back. */
  abstract probe(): Promise<ProbeResult<Details>>;

  /**
   * Listens. Resolves when peers can connect.
   * Rejects with `ERR_VERBMQ_ADDRESS_IN_USE`, `ERR_VERBMQ_LISTEN_FAILED`, `ERR_VERBMQ_INVALID_ADDRESS`,
   * `ERR_VERBMQ_TLS`, `ERR_VERBMQ_UNAVAILABLE`, `ERR_VERBMQ_CLOSED`.
   */
  async listen(address: Address, options?: L): Promise<Listener> {
    this.#assertOpen('listen');
    const controller = new AbortController();
    const attempt = this.#listen({
      address: this.#resolve(address),
      options: options ?? ({} as L),
      connectionOptions: resolveConnectionOptions(options, this._options),
      signal: controller.signal,
    });
    this.#attempts.set(controller, attempt);
    try {
      return await attempt;
    } finally {
      this.#attempts.delete(controller);
    }
  }

  async #listen(request: ListenRequest<L>): Promise<Listener> {
    const listener = await this._listen(request);
    if (this.#closing !== undefined) {
      await listener.close();
      this.#assertOpen('listen');
    }
    this.#listeners.add(listener);
    const told = !request.connectionOptions.inner;
    void listener.closed.then(() => {
      this.#listeners.delete(listener);
      this.#closeIfUnused();
      if (told && channels.listenerClose.hasSubscribers) channels.listenerClose.publish({ listener });
    });
    if (told && channels.listenerOpen.hasSubscribers) channels.listenerOpen.publish({ listener });
    return listener;
  }

  /**
   * Connects. Resolves when messages can be sent.
   * Rejects with `ERR_VERBMQ_CONNECT_FAILED`, `ERR_VERBMQ_CONNECT_TIMEOUT`, `ERR_VERBMQ_CANCELLED`,
   * `ERR_VERBMQ_REJECTED`, `ERR_VERBMQ_VERSION`, `ERR_VERBMQ_PROTOCOL`, `ERR_VERBMQ_TLS`,
   * `ERR_VERBMQ_INVALID_ADDRESS`, `ERR_VERBMQ_UNAVAILABLE`, `ERR_VERBMQ_CLOSED`.
   */
  async connect(address: Address, options?: C): Promise<Connection> {
    this.#assertOpen('connect');
    const timeoutMs = checkInteger(
      'timeoutMs',
      options?.timeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS,
      1,
      MAX_TIMER_MS,
    );
    const signal = options?.signal;
    checkSignal(signal);
    const resolved = this.#resolve(address);
    const connectionOptions = resolveConnectionOptions(options, this._options);

    const controller = new AbortController();
    const cancel = (): void => {
      controller.abort(
        new VerbmqError('ERR_VERBMQ_CANCELLED', 'connect was cancelled by its AbortSignal', {
          cause: signal?.reason,
        }),
      );
    };
    if (signal?.aborted) cancel();
    signal?.addEventListener('abort', cancel, { once: true });
    const timer = setTimeout(() => {
      controller.abort(
        new VerbmqError(
          'ERR_VERBMQ_CONNECT_TIMEOUT',
          `connect to ${describeAddress(resolved)} took longer than ${timeoutMs} ms`,
        ),
      );
    }, timeoutMs);
    try {
      controller.signal.throwIfAborted();
      const attempt = this._connect({
        address: resolved,
        options: options ?? ({} as C),
        connectionOptions,
        signal: controller.signal,
      });
      this.#attempts.set(controller, attempt);
      return await attempt;
    } catch (error) {
      if (channels.connectFail.hasSubscribers && !connectionOptions.inner)
        channels.connectFail.publish({ transport: this, address: resolved, error });
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', cancel);
      this.#attempts.delete(controller);
    }
  }

  /** Ends attempts to listen and to connect, closes all listeners, and closes all connections in order. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * @internal Closes as soon as it has neither a listener nor a connection: for a transport that was made for one of them, and that nobody
   * else has.
   */
  closeWhenUnused(): void {
    this.#closesWhenUnused = true;
    this.#closeIfUnused();
  }

  /** Counters, as they are at this moment. */
  stats(): TransportStats {
    const sums = { ...this.#past };
    for (const connection of this.#connections) addStats(sums, connection);
    return { listeners: this.#listeners.size, connections: this.#connections.size, ...sums };
  }

  // ---- hooks and what a transport calls ----------------------------------------------------------------------

  protected abstract _listen(request: ListenRequest<L>): Promise<Listener>;
  protected abstract _connect(attempt: ConnectAttempt<C>): Promise<Connection>;
  /** Everything is closed: give back what the transport itself holds. */
  protected async _close(): Promise<void> {}

  /** Every new connection, in or out, is told here, before the application gets it. */
  protected _opened(connection: Connection): void {
    this.#connections.add(connection);
    void connection.closed.then(() => {
      this.#connections.delete(connection);
      addStats(this.#past, connection);
      this.#closeIfUnused();
    });
    if (this.#closing !== undefined) connection.abort('the transport is closing');
    else if (channels.connectionOpen.hasSubscribers && !connection.inner) {
      channels.connectionOpen.publish({ connection, direction: connection.direction });
    }
  }

  // ---- private ---------------------------------------------------------------------------------------------

  #resolve(address: Address): ResolvedAddress {
    const resolved = parseAddress(address);
    if (resolved.scheme !== undefined && !this.schemes.includes(resolved.scheme)) {
      throw new VerbmqError(
        'ERR_VERBMQ_INVALID_ADDRESS',
        `the ${this.kind} transport takes ${this.schemes.map((scheme) => `${scheme}://`).join(', ')} addresses, not ${resolved.scheme}://`,
      );
    }
    return resolved;
  }

  #closeIfUnused(): void {
    if (this.#closesWhenUnused && this.#listeners.size === 0 && this.#connections.size === 0)
      void this.close();
  }

  #assertOpen(what: string): void {
    if (this.#closing !== undefined) {
      throw new VerbmqError('ERR_VERBMQ_CLOSED', `${what}: this transport was closed`);
    }
  }

  async #close(): Promise<void> {
    const attempts = [...this.#attempts.values()];
    for (const attempt of this.#attempts.keys()) {
      attempt.abort(new VerbmqError('ERR_VERBMQ_CLOSED', 'the transport was closed meanwhile'));
    }
    await Promise.all([...this.#listeners].map((listener) => listener.close()));
    await Promise.allSettled(attempts);
    await Promise.all([...this.#connections].map((connection) => connection.close()));
    await this._close();
  }
}

function describeAddress(address: ResolvedAddress): string {
  return 'path' in address ? JSON.stringify(address.path) : `${address.host} port ${address.port}`;
}

function addStats(
  sums: Record<'messagesSent' | 'bytesSent' | 'messagesReceived' | 'bytesReceived', number>,
  connection: Connection,
): void {
  const stats = connection.stats();
  sums.messagesSent += stats.messagesSent;
  sums.bytesSent += stats.bytesSent;
  sums.messagesReceived += stats.messagesReceived;
  sums.bytesReceived += stats.bytesReceived;
}
