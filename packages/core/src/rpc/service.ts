import type { Connection } from '../contract/connection.js';
import type { Metadata } from './metadata.js';

/** What a handler knows of the call that it answers. */
export interface CallContext {
  /** Its name in the service. */
  readonly method: string;
  /** The one that the call came on. */
  readonly connection: Connection;
  /** What the caller sent beside the body. */
  readonly metadata: Metadata;
  /**
   * Fires when nobody waits for the answer any more: the caller cancelled, its deadline passed, the connection ended, or
   * the server gave up draining. Made when it is first asked for.
   */
  readonly signal: AbortSignal;
  /** How long the caller will still wait, in milliseconds; `undefined` when it set no deadline. For calls of its own. */
  readonly remainingMs: number | undefined;
  /** What travels beside the answer or the error. Set it before the handler is done. */
  answerMetadata: Metadata | undefined;
}

/**
 * Answers calls. The answer may be a value, a promise, or an async iterable: then the call is a server stream. Where
 * the caller streams, the body is an async iterable. A `Uint8Array` travels as it is, everything else is encoded by the codec.
 */
// biome-ignore lint/suspicious/noExplicitAny: a handler of any body is a handler; its own types are kept and inferred from
export type Handler = (body: any, context: CallContext) => unknown;

const ASKED_FOR: ReadonlySet<string> = new Set(['then', 'toJSON', 'toString', 'valueOf']);

/**
 * Whether the language itself asks an object for this, as where a client is awaited, logged as JSON, or made a text of: that is no
 * call, and a method cannot have this name.
 */
export function isAskedForByLanguage(name: string): boolean {
  return ASKED_FOR.has(name);
}

/**
 * Methods by name: the own functions of an object. What it inherits, as from a class, is not served. No method is called `then`,
 * `toJSON`, `toString` or `valueOf`.
 */
export type Service = Readonly<Record<string, Handler>>;

/** An answer in many items. Leaving the loop, or `cancel()`, ends the call. */
export interface ServerStream<Item> extends AsyncIterableIterator<Item, undefined> {
  /** Ends the call at once; who waits for an item gets `ERR_VERBMQ_CANCELLED`, whose cause is `reason`. */
  cancel(reason?: unknown): void;
  return(): Promise<IteratorResult<Item, undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Options of one call. */
export interface CallOptions {
  /** How long the call may take, in milliseconds. The handler learns what is left of it. 0 is no time, and not without limit. Default: the client's. */
  readonly timeoutMs?: number | undefined;
  /** Cancels the call, and fires the handler's signal. */
  readonly signal?: AbortSignal | undefined;
  /** Travels beside the body, to the handler's `context.metadata`. */
  readonly metadata?: Metadata | undefined;
  /** Called with what the handler sent beside its answer or error, before the call settles. */
  readonly onMetadata?: ((metadata: Metadata) => void) | undefined;
}

type BodyOf<H> = H extends (...rest: infer Rest) => unknown
  ? Rest extends readonly []
    ? undefined
    : Rest[0]
  : never;

type Input<Body> = Body extends AsyncIterable<infer Item> ? AsyncIterable<Item> : Body;

type Arguments<Body> = undefined extends Body
  ? [body?: Input<Body>, options?: CallOptions]
  : [body: Input<Body>, options?: CallOptions];

type AnswerOf<H> = H extends (...rest: never[]) => infer Answer ? Awaited<Answer> : never;

/** One method as a client sees it: called for one answer, or its `stream` for many. */
export type ClientMethod<H> = [AnswerOf<H>] extends [never]
  ? (...rest: Arguments<BodyOf<H>>) => Promise<never>
  : AnswerOf<H> extends AsyncIterable<infer Item>
    ? { stream(...rest: Arguments<BodyOf<H>>): ServerStream<Item> }
    : (...rest: Arguments<BodyOf<H>>) => Promise<AnswerOf<H>>;

/** A service as a client sees it. */
export type Client<S> = { readonly [Method in keyof S & string]: ClientMethod<S[Method]> };
