import type { HostAddress, PathAddress } from './address.js';
import type { Connection } from './connection.js';
import { VerbmqError } from './errors.js';
import type { Logger } from './logger.js';
import { describe } from './options.js';
import type { ListenerStats } from './stats.js';
import { WaitingConnections } from './waiting-connections.js';

/** Gets each connection, which is the program's from then on. What it throws becomes an uncaught exception. */
export type ConnectionHandler = (connection: Connection) => void;

/** What a transport knows of a listener when it is ready. */
export interface ListenerInit {
  readonly kind: string;
  /** Where it listens; the port that was given where 0 was asked for. */
  readonly address: HostAddress | PathAddress;
  /** The same as a URL that `connect` takes. */
  readonly url: string;
  readonly logger: Logger;
}

/**
 * Accepts connections. They go to one handler, or to one iterator. Up to 1,024 that came before it wait; further ones are refused.
 *
 * A connection that ends while it waits is not handed over, unless it has brought messages: then it is, and they can be read. Of those,
 * the one that ended first gives way when a connection comes and the line is full: its messages are dropped.
 */
export abstract class Listener implements AsyncDisposable {
  /** The transport's kind; see {@link Connection.kind}. */
  readonly kind: string;
  /** Where it listens, with the port that was given where 0 was asked for; and the same as a URL that `connect` takes. */
  readonly address: HostAddress | PathAddress;
  readonly url: string;
  /** Resolves when nothing is listened to any more. Accepted connections live on. */
  readonly closed: Promise<void>;

  protected readonly _logger: Logger;

  #resolveClosed!: () => void;
  #closing: Promise<void> | undefined;
  #handler: ConnectionHandler | undefined;
  #iterating = false;
  readonly #waiting = new WaitingConnections((connection, { error }) => {
    this.#failed++;
    this._logger.debug({ connection: connection.id, err: error }, 'a connection ended before it was taken');
  });
  #takers: ((result: IteratorResult<Connection, undefined>) => void)[] = [];
  #accepted = 0;
  #failed = 0;

  constructor(init: ListenerInit) {
    this.kind = init.kind;
    this.address = init.address;
    this.url = init.url;
    this._logger = init.logger.child({ listener: init.url });
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  /**
   * Receives connections by callback. Returns the function that detaches it.
   * @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when there is a receiver already.
   */
  onConnection(handler: ConnectionHandler): () => void {
    if (typeof handler !== 'function')
      throw new TypeError(`handler must be a function, not ${describe(handler)}`);
    this.#assertFree();
    this.#handler = handler;
    for (const connection of this.#waiting.takeEach()) this.#handOver(handler, connection);
    return () => {
      if (this.#handler === handler) this.#handler = undefined;
    };
  }

  /**
   * Receives connections by iteration; ends when the listener closes.
   * @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when there is a receiver already.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Connection, undefined> {
    this.#assertFree();
    this.#iterating = true;
    let done = false;
    const detach = (): void => {
      if (!done) this.#iterating = false;
      done = true;
    };
    const end = (): IteratorResult<Connection, undefined> => ({ done: true, value: undefined });
    const iterator: AsyncIterableIterator<Connection, undefined> = {
      next: async () => {
        const connection = done ? undefined : this.#waiting.shift();
        if (connection !== undefined) return { done: false, value: connection };
        if (this.#closing !== undefined) detach();
        if (done) return end();
        return new Promise((resolve) => {
          this.#takers.push(resolve);
        });
      },
      return: async () => {
        detach();
        for (const taker of this.#takers.splice(0)) taker(end());
        return end();
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  /** Stops listening. Connections that nobody took are aborted; the others live on. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Counters, as they are at this moment. */
  stats(): ListenerStats {
    return { accepted: this.#accepted, failed: this.#failed };
  }

  // ---- hooks and what a transport calls ----------------------------------------------------------------------

  /** Stop accepting and give the endpoint back. Handshakes in progress are ended. */
  protected abstract _close(): Promise<void>;

  /** A connection is usable. */
  protected _accept(connection: Connection): void {
    if (this.#closing !== undefined) {
      connection.abort('the listener is closing');
      return;
    }
    const taker = this.#takers.shift();
    if (this.#handler === undefined && taker === undefined && this.#waiting.isFull) {
      const ended = this.#waiting.shiftEnded();
      this._acceptFailed(
        new VerbmqError('ERR_VERBMQ_OVERLOADED', 'too many connections wait to be accepted'),
      );
      drop(ended ?? connection, 'too many connections wait to be accepted');
      if (ended === undefined) return;
    }
    this.#accepted++;
    if (this.#handler !== undefined) this.#handOver(this.#handler, connection);
    else if (taker !== undefined) taker({ done: false, value: connection });
    else this.#waiting.add(connection);
  }

  /** A connection failed before it was usable: counted and logged, no business of the application. */
  protected _acceptFailed(error: VerbmqError): void {
    this.#failed++;
    this._logger.warn({ err: error }, 'an incoming connection was refused');
  }

  // ---- private ---------------------------------------------------------------------------------------------

  #assertFree(): void {
    if (this.#handler !== undefined || this.#iterating) {
      throw new VerbmqError(
        'ERR_VERBMQ_RECEIVER_ATTACHED',
        'this listener has a handler or an iterator already',
      );
    }
  }

  #handOver(handler: ConnectionHandler, connection: Connection): void {
    try {
      handler(connection);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  }

  async #close(): Promise<void> {
    for (const connection of this.#waiting.takeEach()) drop(connection, 'the listener is closing');
    await this._close();
    for (const taker of this.#takers.splice(0)) taker({ done: true, value: undefined });
    this.#resolveClosed();
  }
}

/** Ends a connection that nobody takes, unless it has ended, and lets go of its messages. */
function drop(connection: Connection, reason: string): void {
  connection.abort(reason);
  void connection.close();
}
