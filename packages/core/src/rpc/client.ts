import type { Codec } from '../codec/codec.js';
import { MsgpackCodec } from '../codec/msgpack-codec.js';
import type { Connection } from '../contract/connection.js';
import { checkInteger, checkOptions } from '../contract/options.js';
import { AssemblyBudget } from './assembly.js';
import type { Caller } from './caller.js';
import { type RpcTrace, rpcChannels } from './diagnostics.js';
import {
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_STREAM_WINDOW_BYTES,
  MAX_BODY_BYTES,
  MAX_WINDOW_BYTES,
} from './limits.js';
import type { CallerSettings } from './pending-call.js';
import { INITIAL_WINDOW, MAX_METHOD_BYTES } from './protocol.js';
import { checkCodec, checkInterceptors, checkTimeout } from './rpc-errors.js';
import {
  type CallOptions,
  type Client,
  isAskedForByLanguage,
  type ServerStream,
  type Service,
} from './service.js';
import { RpcSession } from './session.js';

/** A call on its way through the interceptors. */
export interface ClientRequest {
  readonly kind: 'unary' | 'stream';
  readonly method: string;
  readonly body: unknown;
  readonly options: CallOptions;
}

/** What a call answers with: a promise, or a stream where `stream` was called. */
export type ClientAnswer = Promise<unknown> | ServerStream<unknown>;

/**
 * Stands around every call. Calls `next`, with the same request or another one, once, never or several times, and
 * answers with what that answers or something else: a promise for a `unary` call, a stream for a `stream`.
 */
export type ClientInterceptor = (
  request: ClientRequest,
  next: (request: ClientRequest) => ClientAnswer,
) => ClientAnswer;

/** Options of all calls of a client. */
export interface ClientOptions {
  /** Must be the server's. Default: msgpack. */
  readonly codec?: Codec;
  /** For calls that set no time of their own, in milliseconds. Default: none, they wait as long as the connection lives. */
  readonly timeoutMs?: number;
  /** Calls that may wait for their answers on this connection; the next one is refused. Default 65,536. */
  readonly maxPendingCalls?: number;
  /** The longest answer or item that is accepted, in bytes; all that arrive at a time may hold four times as much. Default 64 MiB. */
  readonly maxBodyBytes?: number;
  /** How far each stream may be ahead of its reader, in bytes. Default 256 KiB, at least 64 KiB. */
  readonly streamWindowBytes?: number;
  /** The first is the outermost. */
  readonly interceptors?: readonly ClientInterceptor[];
}

type MethodFunction = ((body?: unknown, options?: CallOptions) => ClientAnswer) & {
  stream(body?: unknown, options?: CallOptions): ClientAnswer;
};

/**
 * Calls the service that the peer serves on `connection`:
 *
 * ```ts
 * const orders = client<typeof orderService>(connection);
 * const receipt = await orders.place({ item: 'tea' }, { timeoutMs: 500 });
 * for await (const event of orders.watch.stream('tea')) console.log(event);
 * ```
 *
 * The connection may serve calls of the peer at the same time. Calls fail with the error of the connection when that
 * ends: with `outcome: 'unknown'` where the request had left. They are never repeated.
 *
 * @throws TypeError or RangeError that names the option; VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when the connection's messages go
 *   elsewhere.
 */
export function client<S extends Service>(connection: Connection, options: ClientOptions = {}): Client<S> {
  const calls = new ClientCalls(connection, options);
  const methods = new Map<string, MethodFunction>();
  return new Proxy(Object.create(null), {
    get(_, name) {
      if (typeof name !== 'string' || isAskedForByLanguage(name)) return undefined;
      let method = methods.get(name);
      if (method === undefined) {
        method = calls.method(name);
        methods.set(name, method);
      }
      return method;
    },
  });
}

class ClientCalls {
  readonly #connection: Connection;
  readonly #caller: Caller;
  readonly #settings: CallerSettings;
  readonly #interceptors: readonly ClientInterceptor[];

  constructor(connection: Connection, options: ClientOptions) {
    checkOptions('options', options);
    if (options.timeoutMs !== undefined) checkTimeout(options.timeoutMs);
    this.#settings = {
      codec: checkCodec(options.codec ?? new MsgpackCodec()),
      timeoutMs: options.timeoutMs,
      maxPendingCalls: checkInteger('maxPendingCalls', options.maxPendingCalls ?? 65_536, 1, 2 ** 31),
      streamWindowBytes: checkInteger(
        'streamWindowBytes',
        options.streamWindowBytes ?? DEFAULT_STREAM_WINDOW_BYTES,
        INITIAL_WINDOW,
        MAX_WINDOW_BYTES,
      ),
      budget: new AssemblyBudget(
        checkInteger('maxBodyBytes', options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES, 1, MAX_BODY_BYTES),
      ),
    };
    this.#interceptors = checkInterceptors(options.interceptors ?? []);
    this.#connection = connection;
    this.#caller = RpcSession.of(connection).caller;
  }

  method(name: string): MethodFunction {
    if (Buffer.byteLength(name) > MAX_METHOD_BYTES) {
      throw new RangeError(`the name of a method may have ${MAX_METHOD_BYTES} bytes at most`);
    }
    const unary = (body?: unknown, options?: CallOptions): ClientAnswer => {
      if (this.#interceptors.length > 0 || rpcChannels.client.hasSubscribers) {
        try {
          return this.#throughInterceptors({ kind: 'unary', method: name, body, options: options ?? {} }, 0);
        } catch (error) {
          return Promise.reject(error);
        }
      }
      return this.#caller.unary(this.#settings, name, body, options);
    };
    const stream = (body?: unknown, options: CallOptions = {}): ClientAnswer =>
      this.#throughInterceptors({ kind: 'stream', method: name, body, options }, 0);
    return Object.assign(unary, { stream });
  }

  #throughInterceptors(request: ClientRequest, index: number): ClientAnswer {
    const interceptor = this.#interceptors[index];
    if (interceptor === undefined) return this.#start(request);
    return interceptor(request, (next) => this.#throughInterceptors(next, index + 1));
  }

  #start(request: ClientRequest): ClientAnswer {
    const { kind, method, body, options } = request;
    if (rpcChannels.client.hasSubscribers) return this.#traced(request);
    if (kind === 'unary') return this.#caller.unary(this.#settings, method, body, options);
    return this.#caller.stream(this.#settings, method, body, options, () => {}) as ServerStream<unknown>;
  }

  #traced({ kind, method, body, options }: ClientRequest): ClientAnswer {
    checkOptions('the options of a call', options);
    checkOptions('metadata', options.metadata);
    const metadata: Record<string, string> = { ...options.metadata };
    const trace: RpcTrace = { kind, method, connection: this.#connection, metadata };
    const withMetadata = { ...options, metadata };
    if (kind === 'unary') {
      return rpcChannels.client.tracePromise(
        () => this.#caller.unary(this.#settings, method, body, withMetadata),
        trace,
      );
    }
    let stream: ClientAnswer | undefined;
    const over = rpcChannels.client.tracePromise(
      () =>
        new Promise<void>((resolve, reject) => {
          const done = (failure?: { readonly error: unknown }): void =>
            failure === undefined ? resolve() : reject(failure.error);
          stream = this.#caller.stream(
            this.#settings,
            method,
            body,
            withMetadata,
            done,
          ) as ServerStream<unknown>;
        }),
      trace,
    );
    over.catch(() => {}); // the subscribers have been told; who reads the stream is told there
    return stream as unknown as ServerStream<unknown>;
  }
}
