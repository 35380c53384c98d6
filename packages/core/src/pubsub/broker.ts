import type { Codec } from '../codec/codec.js';
import { MsgpackCodec } from '../codec/msgpack-codec.js';
import { VerbmqError } from '../contract/errors.js';
import { guarded, type Logger, silentLogger } from '../contract/logger.js';
import { checkInteger, checkLogger, checkOptions } from '../contract/options.js';
import { DEFAULT_MAX_BODY_BYTES } from '../rpc/limits.js';
import { checkHeaders, type MessageHeaders } from '../rpc/message-headers.js';
import { checkCodec } from '../rpc/rpc-errors.js';
import type { CallContext } from '../rpc/service.js';
import { pubsubChannels } from './diagnostics.js';
import { checkWhenSlow, Event, type Item, Subscriber, Tally } from './subscriber.js';
import { TopicTree } from './topic-tree.js';

/** Limits of a broker of topics. */
export interface PubsubBrokerOptions {
  /** Must be the clients'. Default: msgpack. */
  readonly codec?: Codec;
  /** The most events that may wait for one subscriber, whatever it asks for. Default 10,000. */
  readonly maxQueued?: number;
  /** The most bytes of events that may wait for one subscriber, whatever it asks for; one event may always wait. Default 64 MiB. */
  readonly maxQueuedBytes?: number;
  /**
   * The most memory that events may take that wait for all subscribers together, in bytes: each event counted once, and its place in
   * the queue of each subscriber. Beyond it those that are behind do not get what comes, or are disconnected where they chose that.
   * Default 1 GiB.
   */
  readonly maxHeldBytes?: number;
  /**
   * The longest event, in bytes as its subscribers get it; publishing a longer one fails with `ERR_VERBMQ_MESSAGE_TOO_LARGE`. No more than
   * the `maxBodyBytes` of the subscribers, whom a longer one would end. Default 64 MiB.
   */
  readonly maxEventBytes?: number;
  /** How many subscriptions there may be. Default 100,000. */
  readonly maxSubscriptions?: number;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** Counters of a broker of topics since it was made. A snapshot. */
export interface PubsubStats {
  /** How many there are. */
  readonly subscriptions: number;
  /** Events that were published, also those that nobody got. */
  readonly published: number;
  /** Events that were given to subscribers or wait for them, each subscriber counted. */
  readonly delivered: number;
  /** Events that slow subscribers did not get. */
  readonly dropped: number;
  /** What the events that wait take, in bytes: each event counted once, and its place in the queue of each subscriber. */
  readonly heldBytes: number;
}

/** What is published. */
export interface Publication {
  readonly topic: string;
  readonly body: unknown;
  readonly headers?: MessageHeaders;
}

const MIB = 1024 * 1024;

/**
 * Passes events on to those who have subscribed at the time. Nothing is kept for those who come later. An event is encoded
 * once, for however many subscribers, and none of them can hold up the publisher or another subscriber.
 *
 * ```ts
 * const broker = new PubsubBroker();
 * serve(listener, { ...broker.service });
 * broker.publish('orders.created', order); // from here; or from any client
 * ```
 */
export class PubsubBroker {
  readonly #codec: Codec;
  readonly #logger: Logger;
  readonly #maxQueued: number;
  readonly #maxQueuedBytes: number;
  readonly #maxEventBytes: number;
  readonly #maxSubscriptions: number;
  readonly #tally: Tally;
  readonly #tree = new TopicTree<Subscriber>();
  readonly #subscribers = new Set<Subscriber>();
  #published = 0;

  /** What `serve` takes, alone or among other methods. */
  readonly service = {
    'pubsub:publish': (publication: Publication) => this.#publish(publication),
    'pubsub:subscribe': (_: undefined, context: CallContext) => this.#subscribe(context),
  } as const;

  /** @throws TypeError or RangeError that names the option. */
  constructor(options: PubsubBrokerOptions = {}) {
    checkOptions('options', options);
    checkLogger(options.logger);
    this.#codec = checkCodec(options.codec ?? new MsgpackCodec());
    this.#logger = guarded(options.logger ?? silentLogger).child({ part: 'pubsub' });
    this.#maxQueued = checkInteger('maxQueued', options.maxQueued ?? 10_000, 1, 2 ** 31);
    this.#maxQueuedBytes = bytes('maxQueuedBytes', options.maxQueuedBytes ?? 64 * MIB);
    this.#tally = new Tally(bytes('maxHeldBytes', options.maxHeldBytes ?? 1024 * MIB));
    this.#maxEventBytes = bytes('maxEventBytes', options.maxEventBytes ?? DEFAULT_MAX_BODY_BYTES);
    this.#maxSubscriptions = checkInteger(
      'maxSubscriptions',
      options.maxSubscriptions ?? 100_000,
      1,
      2 ** 31,
    );
  }

  /**
   * Answers with the number of subscribers that get it: to whom it is sent, or for whom it waits.
   * @throws TypeError for what is no topic or no headers, VerbmqError `ERR_VERBMQ_ENCODE` and `ERR_VERBMQ_MESSAGE_TOO_LARGE`, where there are
   *   subscribers.
   */
  publish(topic: string, body: unknown, options: { readonly headers?: MessageHeaders } = {}): number {
    checkOptions('options', options);
    if (!pubsubChannels.publish.hasSubscribers) return this.#pass(topic, body, options.headers);
    const headers: Record<string, string> = { ...checkHeaders(options.headers) };
    const trace = { topic, connection: undefined, headers };
    return pubsubChannels.publish.traceSync(() => this.#pass(topic, body, headers), trace);
  }

  #pass(topic: string, body: unknown, given: unknown): number {
    const headers = checkHeaders(given);
    const subscribers = this.#tree.match(topic);
    this.#published++;
    if (subscribers.size === 0) return 0;
    const encoded = this.#codec.encode({ topic, body, ...(headers && { headers }) }, 0);
    if (encoded.byteLength > this.#maxEventBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_MESSAGE_TOO_LARGE',
        `an event of ${encoded.byteLength} bytes exceeds the ${this.#maxEventBytes} of this broker's maxEventBytes`,
      );
    }
    const event = new Event(new Uint8Array(encoded));
    let reached = 0;
    for (const subscriber of subscribers) if (subscriber.offer(event)) reached++;
    return reached;
  }

  /** Counters, as they are at this moment. */
  stats(): PubsubStats {
    return {
      subscriptions: this.#tree.size,
      published: this.#published,
      delivered: this.#tally.delivered,
      dropped: this.#tally.dropped,
      heldBytes: this.#tally.heldBytes,
    };
  }

  /** Ends all subscriptions, so that a server can drain: what they wait for rejects with `ERR_VERBMQ_CANCELLED`, reason `released`. */
  releaseSubscribers(): void {
    for (const subscriber of [...this.#subscribers]) subscriber.leave();
  }

  #publish(publication: Publication): number {
    if (typeof publication !== 'object' || publication === null) {
      throw new TypeError('a publication has a topic and a body');
    }
    return this.#pass(publication.topic, publication.body, publication.headers);
  }

  #subscribe(context: CallContext): AsyncIterable<Item> {
    const {
      pattern = '',
      maxQueued,
      maxQueuedBytes = this.#maxQueuedBytes,
      whenSlow = '',
    } = context.metadata;
    const limits = {
      maxQueued: Math.min(checkInteger('maxQueued', Number(maxQueued), 1, 2 ** 31), this.#maxQueued),
      maxQueuedBytes: Math.min(bytes('maxQueuedBytes', Number(maxQueuedBytes)), this.#maxQueuedBytes),
      whenSlow: checkWhenSlow(whenSlow),
    };
    if (this.#tree.size >= this.#maxSubscriptions) {
      throw new VerbmqError(
        'ERR_VERBMQ_OVERLOADED',
        `there are ${this.#maxSubscriptions} subscriptions already (maxSubscriptions)`,
      );
    }
    const subscriber = new Subscriber(this.#codec.name, limits, this.#tally, (error) => {
      if (error !== undefined)
        this.#logger.warn({ pattern, err: error }, 'a slow subscriber was disconnected');
      this.#tree.delete(pattern, subscriber);
      this.#subscribers.delete(subscriber);
    });
    this.#tree.add(pattern, subscriber);
    this.#subscribers.add(subscriber);
    return subscriber;
  }
}

function bytes(name: string, value: number): number {
  return checkInteger(name, value, 1, Number.MAX_SAFE_INTEGER);
}
