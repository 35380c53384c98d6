import type { Codec } from '../codec/codec.js';
import { MsgpackCodec } from '../codec/msgpack-codec.js';
import type { Connection } from '../contract/connection.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import { Listener } from '../contract/listener.js';
import { guarded, type Logger, silentLogger } from '../contract/logger.js';
import {
  checkFunction,
  checkInteger,
  checkLogger,
  checkOptions,
  describe,
  MAX_TIMER_MS,
} from '../contract/options.js';
import {
  DEFAULT_BACKLOG_TIMEOUT_MS,
  DEFAULT_MAX_BACKLOG_BYTES,
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_STREAM_WINDOW_BYTES,
  MAX_BODY_BYTES,
  MAX_WINDOW_BYTES,
} from './limits.js';
import { INITIAL_WINDOW, MAX_METHOD_BYTES, MAX_METHODS } from './protocol.js';
import { describeError, type ErrorDescription } from './remote-error.js';
import { checkCodec, checkInterceptors, checkTimeout } from './rpc-errors.js';
import { type Method, ServerCore, type ServerInterceptor } from './server-core.js';
import { isAskedForByLanguage, type Service } from './service.js';
import { RpcSession } from './session.js';
import { clearWheelTimer, setWheelTimer, type WheelTimer } from './timer-wheel.js';

/** How long a server that gives calls up waits for their callers to be told, in milliseconds. */
const LAST_WORDS_MS = 1000;

/** Limits of a server, and how it encodes and tells of errors. */
export interface ServeOptions {
  /** Must be the clients'. Default: msgpack. */
  readonly codec?: Codec;
  /** Calls that may run at a time, over all connections; further ones are refused with `ERR_VERBMQ_OVERLOADED`. Default 65,536. */
  readonly maxConcurrentCalls?: number;
  /** The same for each connection. Default 16,384. */
  readonly maxConcurrentCallsPerConnection?: number;
  /**
   * The longest body that is accepted, in bytes; all that arrive at a time on one connection may hold four times as much, with the
   * items of streams that their handlers have not read, which count as the memory that they take. Default 64 MiB.
   */
  readonly maxBodyBytes?: number;
  /**
   * The answers that may wait for a caller that does not read them as fast as it asks, in bytes. Beyond it further calls are
   * refused with `ERR_VERBMQ_OVERLOADED`; the answers of those that run already still wait. The streams of a connection take no more
   * items when so many bytes of theirs wait, or 1 MiB of such as fit into a frame. Default 64 MiB.
   */
  readonly maxBacklogBytes?: number;
  /**
   * A caller that goes on calling beyond `maxBacklogBytes` for so long, while none of the answers leaves, does not read at all: its
   * connection is ended, as it is when 64 MiB of refusals wait for it. Time in which it does not call counts for a tenth of that at most.
   * In milliseconds. Default 10,000.
   */
  readonly backlogTimeoutMs?: number;
  /** How far each stream of a caller may be ahead of its handler, in bytes. Default 256 KiB, at least 64 KiB. */
  readonly streamWindowBytes?: number;
  /** The first is the outermost. */
  readonly interceptors?: readonly ServerInterceptor[];
  /** Chooses what of an error that a handler threw the caller gets. Default: its `code`, `message` and `details`. */
  readonly describeError?: (error: unknown) => ErrorDescription;
  /** Sends the stack in place of the message. For development. Default off. */
  readonly exposeStacks?: boolean;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** Counters of a server since it was made. A snapshot. */
export interface RpcServerStats {
  /** Those that it serves. */
  readonly connections: number;
  /** Calls whose answer has not left. Those whose handler answers at once are never among them. */
  readonly running: number;
  /** Calls that were answered, and those that ended with an error. */
  readonly handled: number;
  readonly failed: number;
  /** Calls that did not run: unknown methods, another codec, and those over a limit. */
  readonly refused: number;
}

/**
 * Answers the calls that arrive on the connections of a listener, or on one connection:
 *
 * ```ts
 * serve(listener, {
 *   add: ({ a, b }: { a: number; b: number }) => a + b,
 *   async *count(to: number) { for (let i = 0; i < to; i++) yield i; },
 * });
 * ```
 *
 * @throws TypeError or RangeError that names the method or the option.
 */
export function serve(
  source: Listener | Connection,
  service: Service,
  options: ServeOptions = {},
): RpcServer {
  const server = new RpcServer(service, options);
  server.serve(source);
  return server;
}

/** A service that is being served; made by {@link serve}. */
export class RpcServer implements AsyncDisposable {
  readonly #core: ServerCore;
  readonly #listeners = new Set<Listener>();
  readonly #connections = new Set<Connection>();

  constructor(service: Service, options: ServeOptions) {
    checkOptions('options', options);
    checkFunction('describeError', options.describeError);
    checkLogger(options.logger);
    const { exposeStacks = false } = options;
    if (typeof exposeStacks !== 'boolean') throw new TypeError('exposeStacks must be a boolean');
    const integer = (name: keyof ServeOptions, otherwise: number, min: number, max: number): number =>
      checkInteger(name, options[name] ?? otherwise, min, max);
    this.#core = new ServerCore(methodsOf(service), {
      codec: checkCodec(options.codec ?? new MsgpackCodec()),
      maxConcurrentCalls: integer('maxConcurrentCalls', 65_536, 1, 2 ** 31),
      maxConcurrentCallsPerConnection: integer('maxConcurrentCallsPerConnection', 16_384, 1, 2 ** 31),
      maxBodyBytes: integer('maxBodyBytes', DEFAULT_MAX_BODY_BYTES, 1, MAX_BODY_BYTES),
      maxBacklogBytes: integer('maxBacklogBytes', DEFAULT_MAX_BACKLOG_BYTES, 1, Number.MAX_SAFE_INTEGER),
      backlogTimeoutMs: integer('backlogTimeoutMs', DEFAULT_BACKLOG_TIMEOUT_MS, 1, MAX_TIMER_MS),
      streamWindowBytes: integer(
        'streamWindowBytes',
        DEFAULT_STREAM_WINDOW_BYTES,
        INITIAL_WINDOW,
        MAX_WINDOW_BYTES,
      ),
      interceptors: checkInterceptors(options.interceptors ?? []),
      describeError: options.describeError ?? describeError,
      exposeStacks,
      logger: guarded(options.logger ?? silentLogger).child({ part: 'rpc' }),
    });
  }

  /**
   * Serves one more listener or connection.
   * @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when its connections or messages go elsewhere.
   */
  serve(source: Listener | Connection): void {
    if (!(source instanceof Listener)) {
      this.#attach(source);
      return;
    }
    source.onConnection((connection) => this.#accept(connection));
    this.#listeners.add(source);
    void source.closed.then(() => this.#listeners.delete(source));
  }

  /**
   * Refuses new calls with `ERR_VERBMQ_OVERLOADED` (`reason: 'draining'`), and resolves when those that run are answered and
   * their answers have left.
   * @param timeoutMs after which calls that still run are given up: their signals fire, and their callers get
   *   `ERR_VERBMQ_CANCELLED`, those who read within a second. Default: never.
   * @throws (by rejecting) TypeError or RangeError for a time that is none.
   */
  async drain(timeoutMs?: number): Promise<void> {
    if (timeoutMs !== undefined) checkTimeout(timeoutMs);
    this.#core.draining = true;
    const left = this.#answersLeft();
    if (timeoutMs === undefined) return left;
    if (await within(timeoutMs, left)) return;
    this.#giveUp();
    // A caller that does not read could keep what it is told from leaving for ever.
    await within(LAST_WORDS_MS, left);
  }

  async #answersLeft(): Promise<void> {
    await undefined; // a handler that calls this before it returns is not among those that run yet
    await this.#core.idle();
    // A connection that ends meanwhile has nothing left to wait for.
    await Promise.allSettled([...this.#connections].map((connection) => connection.drain()));
  }

  /**
   * Stops listening, drains, and closes the connections that it serves.
   * @param timeoutMs as for {@link drain}.
   * @throws (by rejecting) TypeError or RangeError for a time that is none.
   */
  async close(timeoutMs?: number): Promise<void> {
    if (timeoutMs !== undefined) checkTimeout(timeoutMs);
    const listeners = [...this.#listeners].map((listener) => listener.close());
    await this.drain(timeoutMs);
    await Promise.all([...listeners, ...[...this.#connections].map((connection) => connection.close())]);
  }

  /** The same as {@link close}, without a time limit. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Counters, as they are at this moment. */
  stats(): RpcServerStats {
    const { running, handled, failed, refused } = this.#core;
    return { connections: this.#connections.size, running, handled, failed, refused };
  }

  /** Whatever is wrong with one connection of many is no fault of the program. */
  #accept(connection: Connection): void {
    try {
      this.#attach(connection);
    } catch (error) {
      if (!isVerbmqError(error, 'ERR_VERBMQ_UNSUPPORTED') && !isVerbmqError(error, 'ERR_VERBMQ_CLOSED'))
        throw error;
      this.#core.settings.logger.warn(
        { connection: connection.id, err: error },
        'a connection cannot be served',
      );
      connection.abort(`rpc: ${error.message}`);
    }
  }

  #attach(connection: Connection): void {
    RpcSession.of(connection).callee.attach(this.#core);
    this.#connections.add(connection);
    void connection.closed.then(() => this.#connections.delete(connection));
  }

  #giveUp(): void {
    const error = new VerbmqError('ERR_VERBMQ_CANCELLED', 'the server shut down before the call was done', {
      reason: 'draining',
    });
    for (const connection of this.#connections) RpcSession.of(connection).callee.giveUp(error);
  }
}

/** Whether `done` resolves in time. */
async function within(timeoutMs: number, done: Promise<void>): Promise<boolean> {
  let timer!: WheelTimer;
  const expired = new Promise<false>((resolve) => {
    timer = setWheelTimer(timeoutMs, () => resolve(false));
  });
  const inTime = await Promise.race([done.then(() => true), expired]);
  clearWheelTimer(timer);
  return inTime;
}

function methodsOf(service: Service): Method[] {
  if (typeof service !== 'object' || service === null)
    throw new TypeError(`a service is an object of functions, not ${describe(service)}`);
  const names = Object.keys(service);
  if (names.length === 0 && !isPlain(service)) {
    throw new TypeError(
      'a service is an object of functions: what it inherits, as from a class, is not served',
    );
  }
  if (names.length > MAX_METHODS) throw new RangeError(`a service may have ${MAX_METHODS} methods at most`);
  return names.map((name) => {
    const handler = service[name];
    if (typeof handler !== 'function') throw new TypeError(`the method ${name} must be a function`);
    if (name === '' || isAskedForByLanguage(name))
      throw new TypeError(`a method cannot be called ${JSON.stringify(name)}`);
    if (Buffer.byteLength(name) > MAX_METHOD_BYTES) {
      throw new RangeError(`the name of a method may have ${MAX_METHOD_BYTES} bytes at most`);
    }
    return { name, handler: handler.bind(service) };
  });
}

function isPlain(service: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(service);
  return prototype === null || prototype === Object.prototype;
}
