import type { Connection } from '../contract/connection.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import { checkOptions, checkSignal, describe } from '../contract/options.js';
import { unwatchSignal, watchSignal } from '../rpc/abort-hub.js';
import type { ClientOptions } from '../rpc/client.js';
import { type PubsubEvent, pubsub, type SubscribeOptions } from './client.js';

/** An event that came over one connection of several. */
export interface ResubscribedEvent<Body> extends PubsubEvent<Body> {
  /** The first event after a connection was lost: what was published in between, and what was under way, is missing. */
  readonly gap: boolean;
}

/** Those of each subscription, and of the client that makes it. */
export interface ResubscribeOptions extends SubscribeOptions {
  /** Of the client that is made on each connection. */
  readonly client?: ClientOptions;
}

/** Events as they come, over one connection after the other. Leaving the loop, or disposing of it, ends the subscription, also while it waits for a connection. */
export interface Resubscription<Body> extends AsyncIterableIterator<ResubscribedEvent<Body>, undefined> {
  return(): Promise<IteratorResult<ResubscribedEvent<Body>, undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Subscribes, and again on a new connection whenever one is lost, or has ended because its server shuts down. A connection that resumes
 * its session by itself goes on without a gap; this is for what comes after that.
 *
 * @param connect gives an open connection each time, first when the first event is asked for; it may wait as long as it likes between
 *   its attempts. Its signal fires when nobody waits for the connection any more. What it rejects with ends the iteration, as does what
 *   the broker refuses, and with a `TypeError` the connection that was lost. The connections stay the program's, which closes them.
 */
export function resubscribe<Body>(
  connect: (signal: AbortSignal) => Promise<Connection>,
  pattern: string,
  options: ResubscribeOptions = {},
): Resubscription<Body> {
  if (typeof connect !== 'function')
    throw new TypeError(`connect must be a function, not ${describe(connect)}`);
  checkOptions('options', options);
  checkOptions('client', options.client);
  checkSignal(options.signal);
  return new OpenResubscription<Body>(connect, pattern, options);
}

class OpenResubscription<Body> implements Resubscription<Body> {
  /** Ends what is waited for: a connection, or an event. */
  readonly #controller = new AbortController();
  readonly #events: AsyncGenerator<ResubscribedEvent<Body>, undefined>;
  #left = false;

  constructor(
    connect: (signal: AbortSignal) => Promise<Connection>,
    pattern: string,
    options: ResubscribeOptions,
  ) {
    this.#events = eventsOf<Body>(connect, pattern, options, this.#controller);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<ResubscribedEvent<Body>, undefined>> {
    try {
      return await this.#events.next();
    } catch (error) {
      if (this.#left) return { done: true, value: undefined };
      throw error;
    }
  }

  async return(): Promise<IteratorResult<ResubscribedEvent<Body>, undefined>> {
    await this.#leave();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave();
  }

  /** A generator that waits for something takes no `return` before that has come: so it is ended first. */
  async #leave(): Promise<void> {
    this.#left = true;
    this.#controller.abort();
    await this.#events.return(undefined);
  }
}

async function* eventsOf<Body>(
  connect: (signal: AbortSignal) => Promise<Connection>,
  pattern: string,
  options: ResubscribeOptions,
  controller: AbortController,
): AsyncGenerator<ResubscribedEvent<Body>, undefined> {
  const { signal } = controller;
  const program = options.signal;
  const abortable = { onAbort: (reason: unknown): void => controller.abort(reason) };
  if (program?.aborted) controller.abort(program.reason);
  else if (program !== undefined) watchSignal(program, abortable);
  let gap = false;
  let lost: Connection | undefined;
  try {
    for (;;) {
      const connection = await connectionFrom(connect, signal);
      if (connection === lost) throw new TypeError('connect gave the connection that was lost');
      const topics = pubsub(connection, options.client); // what is no connection would be none on which it goes on
      try {
        const events = topics.subscribe<Body>(pattern, { ...options, signal });
        for await (const event of events) {
          yield { ...event, gap };
          gap = false;
        }
      } catch (error) {
        const isOver = connection.state !== 'open' || isShuttingDown(error);
        if (signal.aborted || !isOver) throw error;
      }
      // A server that lets its subscribers go, as one that gives them up, ends its connections next.
      await endOf(connection, signal);
      gap = true;
      lost = connection;
      // Where every connection is lost at once, the rest of the program goes on, and may cancel this.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    if (program !== undefined) unwatchSignal(program, abortable);
  }
}

function isShuttingDown(error: unknown): boolean {
  return isVerbmqError(error) && (error.reason === 'released' || error.reason === 'draining');
}

/** Resolves when the connection is open no more, or the signal fires. */
function endOf(connection: Connection, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done);
      resolve();
    };
    if (connection.state !== 'open' || signal.aborted) {
      resolve();
      return;
    }
    signal.addEventListener('abort', done, { once: true });
    void connection.closed.then(done);
  });
}

/** @throws (by rejecting) what `connect` does, and `ERR_VERBMQ_CANCELLED` when the signal fires before. */
function connectionFrom(
  connect: (signal: AbortSignal) => Promise<Connection>,
  signal: AbortSignal,
): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void =>
      reject(
        new VerbmqError('ERR_VERBMQ_CANCELLED', 'the subscription was cancelled', { cause: signal.reason }),
      );
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    const connecting = async (): Promise<Connection> => connect(signal);
    connecting()
      .finally(() => signal.removeEventListener('abort', onAbort))
      .then(resolve, reject);
  });
}
