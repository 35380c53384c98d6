import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { guarded, type Logger, silentLogger } from '../contract/logger.js';
import {
  checkInteger,
  checkLogger,
  checkOptions,
  checkSignal,
  describe,
  MAX_TIMER_MS,
} from '../contract/options.js';
import { type ClientOptions, client } from '../rpc/client.js';
import { checkHeaders, type MessageHeaders } from '../rpc/message-headers.js';
import type { CallOptions, Client } from '../rpc/service.js';
import type { QueueBroker } from './broker.js';
import { Deliveries } from './deliveries.js';
import { type PushTrace, queueChannels } from './diagnostics.js';
import type { GivenJob, Job } from './given-job.js';
import { checkQueueName, MAX_PREFETCH } from './limits.js';
import { Verdicts } from './verdicts.js';

/** How long a broker may take to let a consumer go, in milliseconds. */
const LEAVE_TIMEOUT_MS = 30_000;

/** Those of the calls that it makes, of which `timeoutMs` is for pushes alone, and who is told of its own work. */
export interface QueueOptions extends ClientOptions {
  /** Is told of handlers of `work` that fail. Default: nothing is logged. */
  readonly logger?: Logger;
}

/** Those of the call that pushes, and what goes on to the consumer. */
export interface PushOptions extends CallOptions {
  /** Travel with the work to whoever does it. The `metadata` go to the broker alone. */
  readonly headers?: MessageHeaders | undefined;
}

interface LeaveOptions {
  /** How long leaving waits for the broker to read what was judged, in milliseconds. After it, that may be given again. Default 30,000. */
  readonly leaveTimeoutMs?: number;
}

/** How work is done by a function. */
export interface WorkOptions extends LeaveOptions {
  /** How many jobs are done at a time. Default 1. */
  readonly concurrency?: number;
  /** No more is begun. */
  readonly signal?: AbortSignal;
}

/** How work is taken one by one. */
export interface ConsumeOptions extends LeaveOptions {
  /** How much may be given to this consumer that it has not acknowledged. Default 1. */
  readonly prefetch?: number;
  /** Ends the consumption; what is not acknowledged is given to others. */
  readonly signal?: AbortSignal;
}

/**
 * Work as it comes. Leaving the loop, or disposing of it, waits until the queue knows what was acknowledged, and gives the rest to
 * others. It does not wait for longer than `leaveTimeoutMs`, nor for a connection that is lost: then what was acknowledged last may be given again.
 */
export interface Consumption<Body> extends AsyncIterableIterator<Job<Body>, undefined> {
  return(): Promise<IteratorResult<Job<Body>, undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
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
export function queue<Body>(connection: Connection, name: string, options: QueueOptions = {}): Queue<Body> {
  return new Queue(connection, name, options);
}

/** A queue of a broker, as a client sees it; made by {@link queue}. */
export class Queue<Body> {
  /** The broker's name for it. */
  readonly name: string;
  readonly #connection: Connection;
  readonly #api: Client<QueueBroker['service']>;
  /** The same without a time for each call: work is waited for as long as it takes. */
  readonly #lasting: Client<QueueBroker['service']>;
  readonly #logger: Logger;

  /** @throws TypeError or RangeError that names the option; what {@link client} does. */
  constructor(connection: Connection, name: string, options: QueueOptions = {}) {
    checkQueueName(name);
    checkOptions('options', options);
    checkLogger(options.logger);
    this.#connection = connection;
    this.#logger = guarded(options.logger ?? silentLogger).child({ part: 'queue', queue: name });
    const { timeoutMs: _, ...lasting } = options;
    this.#api = client<QueueBroker['service']>(connection, options);
    this.#lasting = client<QueueBroker['service']>(connection, lasting);
    this.name = name;
  }

  /**
   * Resolves when the queue has the work. Rejects as a call does; with `ERR_VERBMQ_OVERLOADED` when the queue is full and
   * refuses. Where `outcome` is `'unknown'` it may or may not have it.
   */
  push(body: Body, options: PushOptions = {}): Promise<void> {
    return queueChannels.push.hasSubscribers
      ? this.#tracedPush(body, options)
      : this.#push(body, options?.headers, options);
  }

  async #tracedPush(body: Body, options: PushOptions): Promise<void> {
    const headers: Record<string, string> = { ...checkHeaders(options?.headers) };
    const trace: PushTrace = { queue: this.name, connection: this.#connection, headers };
    return queueChannels.push.tracePromise(() => this.#push(body, headers, options), trace);
  }

  async #push(body: Body, given: MessageHeaders | undefined, options: CallOptions): Promise<void> {
    const headers = checkHeaders(given);
    const push = { queue: this.name, body, ...(headers && { headers }) };
    const refusal = await this.#api['queue:push'](push, options);
    if (refusal !== undefined) {
      if (typeof refusal?.refused !== 'string' || typeof refusal.message !== 'string') {
        throw new VerbmqError('ERR_VERBMQ_PROTOCOL', 'the broker answered a push with what is no refusal');
      }
      throw new VerbmqError('ERR_VERBMQ_OVERLOADED', refusal.message, { reason: refusal.refused });
    }
  }

  /**
   * Work, one by one, from the first that is asked for on. Throws when the connection is lost; with `ERR_VERBMQ_CANCELLED`, reason `released`, when the broker lets its
   * consumers go, as before it shuts down; and when `signal` fires, which does not wait: then what was acknowledged last may be given again.
   * @throws TypeError or RangeError that names the option.
   */
  consume(options: ConsumeOptions = {}): Consumption<Body> {
    checkOptions('options', options);
    const { prefetch = 1, signal } = options;
    checkInteger('prefetch', prefetch, 1, MAX_PREFETCH);
    checkSignal(signal);
    const leaveTimeoutMs = checkLeaving(options);
    return new OpenConsumption<Body>(() => this.#open(prefetch, leaveTimeoutMs, signal));
  }

  /**
   * Does work with `handler`, up to `concurrency` at a time: what it resolves is acknowledged, what it rejects is logged, and given to
   * somebody again, up to the broker's `maxAttempts`. Resolves when `signal` has fired and what was begun is done and acknowledged, and never else; rejects when what was begun
   * is done and the connection is lost, or the broker has let its consumers go (`ERR_VERBMQ_CANCELLED`, reason `released`), and with `ERR_VERBMQ_CLOSE_TIMEOUT` when the queue
   * has not heard of the end within `leaveTimeoutMs`.
   */
  async work(handler: (body: Body, job: Job<Body>) => unknown, options: WorkOptions = {}): Promise<void> {
    if (typeof handler !== 'function')
      throw new TypeError(`handler must be a function, not ${describe(handler)}`);
    checkOptions('options', options);
    const { concurrency = 1, signal } = options;
    checkInteger('concurrency', concurrency, 1, MAX_PREFETCH);
    checkSignal(signal);
    const leaveTimeoutMs = checkLeaving(options);
    if (signal?.aborted) return;
    const deliveries = this.#open(concurrency, leaveTimeoutMs);
    const running = new Set<Promise<void>>();
    let onDone = (): void => {};
    const run = async (given: GivenJob<Body>): Promise<void> => {
      const { job } = given;
      try {
        await handler(job.body, job);
        job.acknowledge();
      } catch (error) {
        this.#logger.warn({ attempt: job.attempt, err: error }, 'a handler failed');
        given.failed(error);
      }
    };
    // What was begun is finished first. What comes meanwhile is not begun, and goes to others when the queue learns that we leave.
    const leave = async (): Promise<void> => {
      await undefined; // a handler that has the signal fire before it returns is not among those that run yet
      await Promise.all(running);
      await deliveries.leave();
    };
    const onAbort = (): void => void leave().catch(() => {}); // told below
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      for (;;) {
        const given = await deliveries.next();
        if (given === undefined) break;
        // A queue gives work again that took too long, and may so give more than was asked for.
        while (running.size >= concurrency) {
          await new Promise<void>((resolve) => {
            onDone = resolve;
          });
        }
        if (signal?.aborted || deliveries.ended) continue; // which may have come while it waited
        const done: Promise<void> = deliveries
          .run(given, () => run(given))
          .finally(() => {
            running.delete(done);
            onDone();
          });
        running.add(done);
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
      await leave();
    }
  }

  #open(prefetch: number, leaveTimeoutMs: number, signal?: AbortSignal): Deliveries<Body> {
    const verdicts = new Verdicts();
    const stream = this.#lasting['queue:work'].stream(verdicts, {
      signal,
      metadata: { queue: this.name, prefetch: String(prefetch) },
    });
    return new Deliveries<Body>(stream, verdicts, {
      queue: this.name,
      connection: this.#connection,
      prefetch,
      leaveTimeoutMs,
    });
  }
}

/** @throws TypeError or RangeError */
function checkLeaving({ leaveTimeoutMs = LEAVE_TIMEOUT_MS }: LeaveOptions): number {
  return checkInteger('leaveTimeoutMs', leaveTimeoutMs, 0, MAX_TIMER_MS);
}

class OpenConsumption<Body> implements Consumption<Body> {
  readonly #open: () => Deliveries<Body>;
  #deliveries: Deliveries<Body> | undefined;
  #left = false;

  constructor(open: () => Deliveries<Body>) {
    this.#open = open;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Job<Body>, undefined>> {
    if (this.#left) return { done: true, value: undefined };
    this.#deliveries ??= this.#open();
    const given = await this.#deliveries.next();
    if (given === undefined) return { done: true, value: undefined };
    this.#deliveries.run(given, () => {});
    return { done: false, value: given.job };
  }

  async return(): Promise<IteratorResult<Job<Body>, undefined>> {
    await this.#leave();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave();
  }

  /** What fails has been told where the jobs are read, or nobody reads any more. */
  async #leave(): Promise<void> {
    this.#left = true;
    await this.#deliveries?.leave().catch(() => {});
  }
}
