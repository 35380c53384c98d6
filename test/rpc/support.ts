import { type Connection, VerbmqError } from '@verbmq/core';
import {
  type Client,
  type ClientOptions,
  client,
  type RpcServer,
  type ServeOptions,
  type Service,
  serve,
} from '@verbmq/core/rpc';
import { connectPair, type PairOptions } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

export { until } from '../support/until.js';

export interface Served<S extends Service> {
  readonly api: Client<S>;
  readonly server: RpcServer;
  /** The connection of the caller, and that of the service. */
  readonly near: Connection;
  readonly far: Connection;
}

export interface ServedOptions {
  readonly client?: ClientOptions;
  readonly serve?: ServeOptions;
  readonly pair?: PairOptions;
}

/** A service and its client on a fresh connection; all of it ends with the test. */
export async function served<S extends Service>(
  setUp: SetUp,
  service: S,
  options: ServedOptions = {},
): Promise<Served<S>> {
  const { client: near, server: far } = await connectPair(setUp, options.pair);
  const server = serve(far, service, options.serve);
  return { api: client<S>(near, options.client), server, near, far };
}

/** Something that a test opens by hand. */
export class Gate {
  open!: () => void;
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** How a call failed. */
export async function errorOf(
  promise: PromiseLike<unknown>,
): Promise<Error & { code?: string; details?: unknown }> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof Error)) throw new TypeError('what was thrown is no Error');
    return error;
  }
  throw new Error('this should have failed');
}

/** How a call failed, which must be an error of verbmq. */
export async function verbmqErrorOf(promise: PromiseLike<unknown>): Promise<VerbmqError> {
  const error = await errorOf(promise);
  if (!(error instanceof VerbmqError)) throw error;
  return error;
}

export async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

export async function* from<T>(items: Iterable<T>): AsyncGenerator<T> {
  yield* items;
}

/** Resolves when `signal` has fired. */
export function fired(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
