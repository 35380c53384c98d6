import type { Codec } from '../codec/codec.js';
import { MsgpackCodec } from '../codec/msgpack-codec.js';
import { VerbmqError } from '../contract/errors.js';
import { checkInteger } from '../contract/options.js';
import type { CallContext } from '../rpc/service.js';
import { type Item, Subscriber, type WhenSlow } from './subscriber.js';
import { TopicTree } from './topic-tree.js';

export interface PubsubBrokerOptions {
  /** Must be the clients'. Default: msgpack. */
  readonly codec?: Codec;
  /** The most events that may wait for one subscriber, whatever it asks for. Default 10,000. */
  readonly maxQueued?: number;
  /** How many subscriptions there may be. Default 100,000. */
  readonly maxSubscriptions?: number;
}

export interface PubsubStats {
  readonly subscriptions: number;
  readonly published: number;
  /** Events that were given to subscribers, each subscriber counted. */
  readonly delivered: number;
  /** Events that slow subscribers did not get. */
  readonly dropped: number;
}

/** What is published. */
export interface Publication {
  readonly topic: string;
  readonly body: unknown;
}

const POLICIES: readonly string[] = ['drop-oldest', 'drop-newest', 'disconnect'] satisfies WhenSlow[];

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
  readonly #maxQueued: number;
  readonly #maxSubscriptions: number;
  readonly #tree = new TopicTree<Subscriber>();
  readonly #subscribers = new Set<Subscriber>();
  #published = 0;
  #delivered = 0;
  #dropped = 0;

  /** What `serve` takes, alone or among other methods. */
  readonly service = {
    'pubsub:publish': (publication: Publication) => this.#publish(publication),
    'pubsub:subscribe': (_: undefined, context: CallContext) => this.#subscribe(context),
  } as const;

  /** @throws TypeError or RangeError that names the option. */
  constructor(options: PubsubBrokerOptions = {}) {
    this.#codec = options.codec ?? new MsgpackCodec();
    this.#maxQueued = checkInteger('maxQueued', options.maxQueued ?? 10_000, 1, 2 ** 31);
    this.#maxSubscriptions = checkInteger(
      'maxSubscriptions',
      options.maxSubscriptions ?? 100_000,
      1,
      2 ** 31,
    );
  }

  /**
   * Answers with the number of subscribers that get it.
   * @throws TypeError for what is no topic, VerbmqError `ERR_VERBMQ_ENCODE`.
   */
  publish(topic: string, body: unknown): number {
    const subscribers = this.#tree.match(topic);
    this.#published++;
    if (subscribers.size === 0) return 0;
    const event = Uint8Array.from(this.#codec.encode({ topic, body }, 0));
    let reached = 0;
    for (const subscriber of subscribers) {
      if (subscriber.offer(event)) reached++;
      else this.#dropped++;
    }
    this.#delivered += reached;
    return reached;
  }

  stats(): PubsubStats {
    return {
      subscriptions: this.#tree.size,
      published: this.#published,
      delivered: this.#delivered,
      dropped: this.#dropped,
    };
  }

  /** Ends all subscriptions, so that a server can drain. */
  releaseSubscribers(): void {
    for (const subscriber of [...this.#subscribers]) subscriber.leave();
  }

  #publish(publication: Publication): number {
    if (typeof publication !== 'object' || publication === null) {
      throw new TypeError('a publication has a topic and a body');
    }
    return this.publish(publication.topic, publication.body);
  }

  #subscribe(context: CallContext): AsyncIterable<Item> {
    const { pattern = '', maxQueued, whenSlow = '' } = context.metadata;
    if (!POLICIES.includes(whenSlow)) throw new TypeError(`whenSlow is one of ${POLICIES.join(', ')}`);
    const queued = checkInteger('maxQueued', Number(maxQueued), 1, 2 ** 31);
    if (this.#tree.size >= this.#maxSubscriptions) {
      throw new VerbmqError(
        'ERR_VERBMQ_OVERLOADED',
        `there are ${this.#maxSubscriptions} subscriptions already`,
      );
    }
    const subscriber = new Subscriber(Math.min(queued, this.#maxQueued), whenSlow as WhenSlow, () => {
      this.#tree.delete(pattern, subscriber);
      this.#subscribers.delete(subscriber);
    });
    this.#tree.add(pattern, subscriber);
    this.#subscribers.add(subscriber);
    return subscriber;
  }
}
