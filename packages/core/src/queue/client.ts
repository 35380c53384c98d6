import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { checkInteger } from '../contract/options.js';
import { type ClientOptions, client } from '../rpc/client.js';
import type { CallOptions, Client, ServerStream } from '../rpc/service.js';
import type { QueueBroker } from './broker.js';
import type { Delivery, Verdict } from './consumer.js';
import { Outbox } from './outbox.js';

export interface ConsumeOptions {
  /** How much may be given to this consumer that it has not acknowledged. Default 1. */
  readonly prefetch?: number;
  /** Ends the consumption; what is not acknowledged is given to others. */
  readonly signal?: AbortSignal;
}

/** Work as it comes. Leaving the loop, or disposing of it, waits until the queue knows what was acknowledged, and gives the rest to others. */
export interface Consumption<Body> extends AsyncIterableIterator<Job<Body>, undefined> {
  return(): Promise<IteratorResult<Job<Body>, undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Work that was given to this consumer. It is the consumer's until it says what became of it. */
export interface Job<Body> {
  readonly body: Body;
  /** 1 when it is given for the first time. */
  readonly attempt: number;
  /** It is done. Of a job that was judged already, nothing more is said. */
  acknowledge(): void;
  /** It was not done. It is given to somebody again, unless `requeue` is `false`. */
  reject(options?: { readonly requeue?: boolean }): void;
}

/**
 * A queue of the broker that the peer serves. Pushes and consumers may be on as many connections as there are.
 *
 * ```ts
 * const orders = queue<Order>(connection, 'orders');
 * await orders.push(order);
 * for await (const job of orders.consume({ prefetch: 10 })) { await handle(job.body); job.acknowledge(); }
 * ```
 */
export function queue<Body>(connection: Connection, name: string, options: ClientOptions = {}): Queue<Body> {
  return new Queue(client<QueueBroker['service']>(connection, options), name);
}

export class Queue<Body> {
  readonly name: string;
  readonly #api: Client<QueueBroker['service']>;

  constructor(api: Client<QueueBroker['service']>, name: string) {
    this.#api = api;
    this.name = name;
  }

  /**
   * Resolves when the queue has the work. Rejects as a call does; with `ERR_VERBMQ_OVERLOADED` when the queue is full and
   * refuses. Where `outcome` is `'unknown'` it may or may not have it.
   */
  async push(body: Body, options?: CallOptions): Promise<void> {
    const refusal = await this.#api['queue:push']({ queue: this.name, body }, options);
    if (refusal !== undefined) {
      if (typeof refusal?.refused !== 'string' || typeof refusal.message !== 'string') {
        throw new VerbmqError('ERR_VERBMQ_PROTOCOL', 'the broker answered a push with what is no refusal');
      }
      throw new VerbmqError('ERR_VERBMQ_OVERLOADED', refusal.message, { reason: refusal.refused });
    }
  }

  /**
   * Work, one by one, from the first that is asked for on. Throws when the connection is lost; and when `signal` fires, which does not wait: then what was acknowledged last may
   * be given again.
   */
  consume(options: ConsumeOptions = {}): Consumption<Body> {
    return new OpenConsumption<Body>(() => this.#open(options.prefetch ?? 1, options.signal));
  }

  /**
   * Does work with `handler`, up to `concurrency` at a time: what it resolves is acknowledged, what it rejects is given to
   * somebody again. Resolves when `signal` has fired and what was begun is done and acknowledged; rejects when the
   * connection is lost.
   */
  async work(
    handler: (body: Body, job: Job<Body>) => unknown,
    { concurrency = 1, signal }: { readonly concurrency?: number; readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    if (signal?.aborted) return;
    const { deliveries, verdicts } = this.#open(concurrency, undefined);
    const running = new Set<Promise<void>>();
    const run = async (job: Job<Body>): Promise<void> => {
      try {
        await handler(job.body, job);
        job.acknowledge();
      } catch {
        job.reject();
      }
    };
    // What was begun is finished first. What comes meanwhile is not begun, and goes to others when the queue learns that we leave.
    const leave = (): void => {
      void Promise.all(running).then(() => verdicts.end());
    };
    signal?.addEventListener('abort', leave, { once: true });
    try {
      for await (const delivery of deliveries) {
        // A queue gives work again that took too long, and may so give more than was asked for.
        while (running.size >= concurrency) await Promise.race(running);
        if (signal?.aborted) continue;
        const done: Promise<void> = run(jobOf<Body>(delivery, verdicts)).finally(() => running.delete(done));
        running.add(done);
      }
    } finally {
      signal?.removeEventListener('abort', leave);
      verdicts.end();
      await Promise.all(running);
    }
  }

  #open(prefetch: number, signal: AbortSignal | undefined): Streams {
    checkInteger('prefetch', prefetch, 1, 65_536);
    const verdicts = new Outbox<Verdict>();
    const deliveries = this.#api['queue:work'].stream(verdicts, {
      signal,
      metadata: { queue: this.name, prefetch: String(prefetch) },
    });
    return { deliveries, verdicts };
  }
}

interface Streams {
  readonly deliveries: ServerStream<unknown>;
  readonly verdicts: Outbox<Verdict>;
}

class OpenConsumption<Body> implements Consumption<Body> {
  readonly #open: () => Streams;
  #streams: Streams | undefined;
  #left: Promise<void> | undefined;

  constructor(open: () => Streams) {
    this.#open = open;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Job<Body>, undefined>> {
    if (this.#left !== undefined) return { done: true, value: undefined };
    this.#streams ??= this.#open();
    const { deliveries, verdicts } = this.#streams;
    try {
      const { done, value } = await deliveries.next();
      if (done !== true) return { done: false, value: jobOf<Body>(value, verdicts) };
    } catch (error) {
      verdicts.end();
      deliveries.cancel(error);
      this.#left = Promise.resolve();
      throw error;
    }
    await this.#leave();
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<Job<Body>, undefined>> {
    await this.#leave();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave();
  }

  #leave(): Promise<void> {
    this.#streams?.verdicts.end();
    this.#left ??= this.#streams === undefined ? Promise.resolve() : restOf(this.#streams.deliveries);
    return this.#left;
  }
}

/** Reads a stream to its end, whatever that is. */
async function restOf(stream: AsyncIterable<unknown>): Promise<void> {
  try {
    for await (const _ of stream);
  } catch {
    // It has been told where it was read, or nobody reads any more.
  }
}

/** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` for what a broker does not send. */
function jobOf<Body>(value: unknown, verdicts: Outbox<Verdict>): Job<Body> {
  const delivery = value as Delivery | null | undefined;
  if (!Number.isSafeInteger(delivery?.tag) || !Number.isSafeInteger(delivery?.attempt)) {
    throw new VerbmqError('ERR_VERBMQ_PROTOCOL', 'the broker gave what is no work');
  }
  const { tag, attempt, body } = delivery as Delivery;
  let judged = false;
  const judge = (verdict: Verdict['verdict']): void => {
    if (judged) return;
    judged = true;
    verdicts.push({ tag, verdict });
  };
  return {
    body: body as Body,
    attempt,
    acknowledge: () => judge('done'),
    reject: ({ requeue = true } = {}) => judge(requeue ? 'again' : 'never'),
  };
}
