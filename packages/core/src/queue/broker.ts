import type { Codec } from '../codec/codec.js';
import { MsgpackCodec } from '../codec/msgpack-codec.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import { guarded, type Logger, silentLogger } from '../contract/logger.js';
import {
  checkFunction,
  checkInteger,
  checkLogger,
  checkOptions,
  checkSignal,
  MAX_TIMER_MS,
} from '../contract/options.js';
import { DEFAULT_MAX_BODY_BYTES } from '../rpc/limits.js';
import { checkHeaders, type MessageHeaders } from '../rpc/message-headers.js';
import { checkCodec } from '../rpc/rpc-errors.js';
import type { CallContext } from '../rpc/service.js';
import { Consumer, deliveryOf, type Verdict } from './consumer.js';
import { queueChannels } from './diagnostics.js';
import { HeldBytes } from './held-bytes.js';
import { checkQueueName, MAX_PREFETCH } from './limits.js';
import { type QueueStats, type WhenFull, type Work, WorkQueue, type WorkQueueLimits } from './work-queue.js';

/** Limits of a queue broker, and what becomes of work that cannot be done. */
export interface QueueBrokerOptions {
  /** Copies what is pushed from here. Must be the clients'. Default: msgpack. */
  readonly codec?: Codec;
  /** The work that may wait in one queue. Default 100,000. */
  readonly maxReady?: number;
  /** The memory that the work that waits in one queue may take, in bytes, as it is estimated from the bodies. Default 256 MiB. */
  readonly maxReadyBytes?: number;
  /**
   * The same for all queues together, with the work that is being done and the pushes that wait for room. Beyond it pushes
   * are refused with `ERR_VERBMQ_OVERLOADED`, unless the queue can drop something. Default 1 GiB.
   */
  readonly maxHeldBytes?: number;
  /**
   * The longest job, in bytes as a consumer gets it; a push of a longer one fails with `ERR_VERBMQ_MESSAGE_TOO_LARGE`. No more than the
   * `maxBodyBytes` of the consumers, whom a longer one would end. Default 64 MiB.
   */
  readonly maxJobBytes?: number;
  /**
   * What becomes of a push to a queue that is full: it is refused with `ERR_VERBMQ_OVERLOADED` (default), it waits, or what has
   * waited longest or what comes is dropped, and counted.
   */
  readonly whenFull?: WhenFull;
  /** How often work is given to a consumer before it is given up. Default: without limit. */
  readonly maxAttempts?: number;
  /** A consumer that does not acknowledge within this time loses the work to another one, in milliseconds. Default: never. */
  readonly ackTimeoutMs?: number;
  /**
   * How many queues there may be. They come into being with their first use; one in which nothing waits, and at which nobody
   * does, makes room for another. Default 10,000.
   */
  readonly maxQueues?: number;
  /** Gets work that is given up: after `maxAttempts`, or rejected for good. */
  readonly onDead?: (queue: string, body: unknown, attempts: number) => void;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** What all queues of a broker hold. A snapshot. */
export interface QueueBrokerStats {
  /** How many there are. */
  readonly queues: number;
  readonly consumers: number;
  /** About how much memory the work takes, in bytes: what waits, what is being done, and what waits for room. */
  readonly heldBytes: number;
}

/** What a push carries. */
interface Push {
  readonly queue: string;
  readonly body: unknown;
  readonly headers?: MessageHeaders;
}

/** An answer, not an error that was thrown: so that the client can raise the error that it was. */
export interface Refusal {
  readonly refused: string;
  readonly message: string;
}

const MIB = 1024 * 1024;

/** An encoded job is never longer than so many times what it takes in memory, by any codec of use. */
const MOST_ENCODED = 4;

/**
 * Queues of work, in memory: they are gone with this process. Work is given to one consumer at a time, each in turn, up
 * to its prefetch, and is given again when its consumer is lost, rejects it, or takes too long: so it may be done more
 * than once, and never silently not at all.
 *
 * ```ts
 * const broker = new QueueBroker();
 * serve(listener, { ...broker.service });
 * ```
 */
export class QueueBroker {
  readonly #codec: Codec;
  readonly #logger: Logger;
  readonly #limits: WorkQueueLimits;
  readonly #maxJobBytes: number;
  readonly #maxQueues: number;
  readonly #ackTimeoutMs: number | undefined;
  readonly #queues = new Map<string, WorkQueue>();
  /** Those that were idle when they were last heard of, the longest first. Some may be at work again. */
  readonly #idle = new Set<WorkQueue>();
  readonly #consumers = new Set<Consumer>();

  /** What `serve` takes, alone or among other methods. */
  readonly service = {
    'queue:push': (push: Push, context: CallContext) => this.#push(push, context),
    'queue:work': (verdicts: AsyncIterable<Verdict>, context: CallContext) => this.#work(verdicts, context),
  } as const;

  /** @throws TypeError or RangeError that names the option. */
  constructor(options: QueueBrokerOptions = {}) {
    checkOptions('options', options);
    checkFunction('onDead', options.onDead);
    checkLogger(options.logger);
    this.#codec = checkCodec(options.codec ?? new MsgpackCodec());
    this.#logger = guarded(options.logger ?? silentLogger).child({ part: 'queue' });
    this.#limits = {
      maxReady: checkInteger('maxReady', options.maxReady ?? 100_000, 1, 2 ** 31),
      maxReadyBytes: bytes('maxReadyBytes', options.maxReadyBytes ?? 256 * MIB),
      check: (work, bytes) => this.#checkLength(work, bytes),
      held: new HeldBytes(bytes('maxHeldBytes', options.maxHeldBytes ?? 1024 * MIB)),
      whenFull: options.whenFull ?? 'refuse',
      maxAttempts: checkInteger('maxAttempts', options.maxAttempts ?? 2 ** 31, 1, 2 ** 31),
      onDead: (queue, body, attempts) => {
        this.#logger.warn({ queue, attempts }, 'work was given up');
        try {
          options.onDead?.(queue, body, attempts);
        } catch (error) {
          // The program's own fault, as in any event listener. What called this, a verdict or a timer, goes on.
          process.nextTick(() => {
            throw error;
          });
        }
      },
      onIdle: (queue) => {
        this.#idle.delete(queue);
        this.#idle.add(queue);
      },
    };
    if (!['refuse', 'wait', 'drop-oldest', 'drop-newest'].includes(this.#limits.whenFull)) {
      throw new TypeError('whenFull must be one of refuse, wait, drop-oldest, drop-newest');
    }
    this.#maxJobBytes = bytes('maxJobBytes', options.maxJobBytes ?? DEFAULT_MAX_BODY_BYTES);
    this.#maxQueues = checkInteger('maxQueues', options.maxQueues ?? 10_000, 1, 2 ** 31);
    this.#ackTimeoutMs =
      options.ackTimeoutMs === undefined
        ? undefined
        : checkInteger('ackTimeoutMs', options.ackTimeoutMs, 1, MAX_TIMER_MS);
  }

  /**
   * Pushes from here, as clients do from elsewhere. The queue keeps a copy of `body`.
   * @throws (by rejecting) TypeError for a name or headers that are none, VerbmqError `ERR_VERBMQ_ENCODE`, and `ERR_VERBMQ_OVERLOADED` where
   *   the queue is full and refuses; the reason of `signal` when that fires while the push waits for room.
   */
  async push(
    queue: string,
    body: unknown,
    options: { readonly signal?: AbortSignal; readonly headers?: MessageHeaders } = {},
  ): Promise<void> {
    checkOptions('options', options);
    const { signal = new AbortController().signal, headers } = options;
    checkSignal(signal);
    const push = (own: MessageHeaders | undefined): Promise<void> => {
      const work = { body: this.#copy(body), headers: checkHeaders(own) };
      return this.#queue(queue).push(work, { signal }); // not before: the copy may push as well, and an idle queue makes room for another
    };
    if (!queueChannels.push.hasSubscribers) return push(headers);
    const trace = { queue, connection: undefined, headers: { ...checkHeaders(headers) } };
    return queueChannels.push.tracePromise(async () => push(trace.headers), trace);
  }

  /** Of one queue; `undefined` while nobody has used it, or when it was idle and has made room for another. */
  stats(queue: string): QueueStats | undefined;
  /** Of all queues together. */
  stats(): QueueBrokerStats;
  stats(queue?: string): QueueStats | QueueBrokerStats | undefined {
    if (queue !== undefined) return this.#queues.get(queue)?.stats();
    return {
      queues: this.#queues.size,
      consumers: this.#consumers.size,
      heldBytes: this.#limits.held.held,
    };
  }

  /**
   * Lets all consumers go, so that a server can drain: what they wait for rejects with `ERR_VERBMQ_CANCELLED`, reason `released`. What they
   * had not acknowledged waits again.
   */
  releaseConsumers(): void {
    for (const consumer of [...this.#consumers]) consumer.leave();
  }

  async #push(push: Push, context: CallContext): Promise<Refusal | undefined> {
    if (typeof push !== 'object' || push === null) {
      throw new TypeError('a push names a queue, and has a body');
    }
    try {
      const { queue, body, headers } = push;
      await this.#queue(queue).push({ body, headers: checkHeaders(headers) }, context);
      return undefined;
    } catch (error) {
      if (!isVerbmqError(error, 'ERR_VERBMQ_OVERLOADED')) throw error;
      return { refused: error.reason ?? '', message: error.message };
    }
  }

  #copy(body: unknown): unknown {
    if (body === undefined) return undefined;
    if (body instanceof Uint8Array) return new Uint8Array(body);
    const bytes = this.#codec.encode(body, 0);
    return this.#codec.decode(bytes, 0, bytes.byteLength);
  }

  /** @param estimate how much memory the work takes: far from the limit it is not encoded to find out. */
  #checkLength({ body, headers }: Work, estimate: number): void {
    if (estimate * MOST_ENCODED <= this.#maxJobBytes) return;
    const { byteLength } = this.#codec.encode(deliveryOf(2 ** 53, 2 ** 31, headers, body), 0);
    if (byteLength > this.#maxJobBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_MESSAGE_TOO_LARGE',
        `a job of ${byteLength} bytes exceeds the ${this.#maxJobBytes} of this broker's maxJobBytes`,
      );
    }
  }

  #work(verdicts: AsyncIterable<Verdict>, context: CallContext): AsyncIterable<unknown> {
    const { queue = '', prefetch } = context.metadata;
    const work = this.#queue(queue);
    const consumer = new Consumer(
      work,
      checkInteger('prefetch', Number(prefetch), 1, MAX_PREFETCH),
      this.#ackTimeoutMs,
      () => this.#consumers.delete(consumer),
    );
    this.#consumers.add(consumer);
    work.add(consumer);
    void listen(verdicts, consumer, this.#logger.child({ queue }));
    return consumer;
  }

  #queue(name: string): WorkQueue {
    checkQueueName(name);
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      if (this.#queues.size >= this.#maxQueues && !this.#removeIdle()) {
        throw new VerbmqError(
          'ERR_VERBMQ_OVERLOADED',
          `there are ${this.#maxQueues} queues already (maxQueues)`,
          {
            reason: 'queues',
          },
        );
      }
      queue = new WorkQueue(name, this.#limits);
      this.#queues.set(name, queue);
      this.#idle.add(queue);
    }
    return queue;
  }

  #removeIdle(): boolean {
    for (const queue of this.#idle) {
      this.#idle.delete(queue);
      if (!queue.idle || this.#queues.get(queue.name) !== queue) continue;
      this.#queues.delete(queue.name);
      return true;
    }
    return false;
  }
}

function bytes(name: string, value: number): number {
  return checkInteger(name, value, 1, Number.MAX_SAFE_INTEGER);
}

/** Takes verdicts until there are no more, or until one makes no sense: then the consumer has to go. */
async function listen(verdicts: AsyncIterable<Verdict>, consumer: Consumer, logger: Logger): Promise<void> {
  try {
    for await (const verdict of verdicts) {
      if (
        typeof verdict !== 'object' ||
        verdict === null ||
        !['done', 'again', 'never'].includes(verdict.verdict)
      ) {
        logger.warn({}, 'a consumer was let go: what it said is no verdict');
        break;
      }
      consumer.judge(verdict);
    }
  } catch (error) {
    // The call has ended, or something was said that cannot be read: the consumer is lost.
    logger.debug({ err: error }, 'a consumer is lost');
  }
  consumer.leave();
}
