import type { Codec } from '../codec/codec.js';
import { MsgpackCodec } from '../codec/msgpack-codec.js';
import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { checkInteger, checkOptions, checkSignal } from '../contract/options.js';
import { refusal, releasedError } from '../rpc/broker-errors.js';
import { type ClientOptions, client } from '../rpc/client.js';
import { checkHeaders, type MessageHeaders, receivedHeaders } from '../rpc/message-headers.js';
import { codecError } from '../rpc/rpc-errors.js';
import type { CallOptions, Client, ServerStream } from '../rpc/service.js';
import type { PubsubBroker } from './broker.js';
import { type PublishTrace, pubsubChannels } from './diagnostics.js';
import { checkWhenSlow, type Item, type WhenSlow } from './subscriber.js';
import { checkPattern, checkTopic } from './topic-tree.js';

/** Those of the call that publishes, and what goes on to the subscribers. */
export interface PublishOptions extends CallOptions {
  /** Travel with the event to all who get it. The `metadata` go to the broker alone. */
  readonly headers?: MessageHeaders | undefined;
}

/** How far a subscriber may be behind, and what becomes of it then. */
export interface SubscribeOptions {
  /** The events that may wait at the broker for this subscriber, beside those under way. Default 1,000, and the broker's limit. */
  readonly maxQueued?: number;
  /** The same in bytes, as the events are encoded; one event may always wait. Default: the broker's limit. */
  readonly maxQueuedBytes?: number;
  /** What becomes of events beyond that. Default `'drop-oldest'`. */
  readonly whenSlow?: WhenSlow;
  /** Ends the subscription. */
  readonly signal?: AbortSignal;
}

/** An event as a subscriber gets it. */
export interface PubsubEvent<Body> {
  readonly topic: string;
  readonly body: Body;
  /** What was sent beside the body. */
  readonly headers: MessageHeaders;
  /** How many events were left out before this one, because this subscriber was too slow. */
  readonly dropped: number;
}

/** Events as they come. Leaving the loop, or disposing of it, ends the subscription. */
export interface Subscription<Body> extends AsyncIterableIterator<PubsubEvent<Body>, undefined> {
  /**
   * Resolves when the broker has subscribed: from then on, nothing that is published is missed. Also when the subscription was left
   * before.
   */
  readonly ready: Promise<void>;
  return(): Promise<IteratorResult<PubsubEvent<Body>, undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The topics of the broker that the peer serves. Of the options, `timeoutMs` is for what is published alone.
 *
 * ```ts
 * const events = pubsub(connection);
 * for await (const { topic, body } of events.subscribe<Order>('orders.*')) console.log(topic, body);
 * ```
 */
export function pubsub(connection: Connection, options: ClientOptions = {}): Pubsub {
  return new Pubsub(connection, options);
}

/** The topics of a broker, as a client sees them; made by {@link pubsub}. */
export class Pubsub {
  readonly #connection: Connection;
  readonly #api: Client<PubsubBroker['service']>;
  /** The same without a time for each call: events are waited for as long as it takes. */
  readonly #lasting: Client<PubsubBroker['service']>;
  readonly #codec: Codec;

  constructor(connection: Connection, options: ClientOptions = {}) {
    checkOptions('options', options);
    this.#connection = connection;
    const { timeoutMs: _, ...lasting } = options;
    this.#api = client<PubsubBroker['service']>(connection, options);
    this.#lasting = client<PubsubBroker['service']>(connection, lasting);
    this.#codec = options.codec ?? new MsgpackCodec();
  }

  /** Resolves with the number of subscribers that get it. Rejects as a call does, and with a TypeError for what is no topic. */
  publish(topic: string, body: unknown, options: PublishOptions = {}): Promise<number> {
    return pubsubChannels.publish.hasSubscribers
      ? this.#tracedPublish(topic, body, options)
      : this.#publish(topic, body, options?.headers, options);
  }

  async #tracedPublish(topic: string, body: unknown, options: PublishOptions): Promise<number> {
    const headers: Record<string, string> = { ...checkHeaders(options?.headers) };
    const trace: PublishTrace = { topic, connection: this.#connection, headers };
    return pubsubChannels.publish.tracePromise(() => this.#publish(topic, body, headers, options), trace);
  }

  async #publish(
    topic: string,
    body: unknown,
    given: MessageHeaders | undefined,
    options: CallOptions,
  ): Promise<number> {
    checkTopic(topic);
    const headers = checkHeaders(given);
    return this.#api['pubsub:publish']({ topic, body, ...(headers && { headers }) }, options);
  }

  /**
   * Subscribes to all topics that match: words joined by dots, where `*` is any one word and `#` any number of words. What this
   * connection publishes afterwards is not missed; for what others publish, await `ready`. Throws when the connection is lost;
   * with `ERR_VERBMQ_CANCELLED`, reason `released`, when the broker lets its subscribers go, as before it shuts down; and with
   * `ERR_VERBMQ_OVERLOADED` where a slow subscriber was chosen to be disconnected.
   * @throws TypeError for what is no pattern; TypeError or RangeError that names the option.
   */
  subscribe<Body>(pattern: string, options: SubscribeOptions = {}): Subscription<Body> {
    checkOptions('options', options);
    checkPattern(pattern);
    const { maxQueued = 1000, maxQueuedBytes, whenSlow = 'drop-oldest', signal } = options;
    checkWhenSlow(whenSlow);
    checkSignal(signal);
    checkInteger('maxQueued', maxQueued, 1, 2 ** 31);
    if (maxQueuedBytes !== undefined)
      checkInteger('maxQueuedBytes', maxQueuedBytes, 1, Number.MAX_SAFE_INTEGER);
    const stream = this.#lasting['pubsub:subscribe'].stream(undefined, {
      signal,
      metadata: {
        pattern,
        maxQueued: String(maxQueued),
        whenSlow,
        ...(maxQueuedBytes !== undefined && { maxQueuedBytes: String(maxQueuedBytes) }),
      },
    });
    return new OpenSubscription<Body>(this.#connection, stream, this.#codec);
  }
}

class OpenSubscription<Body> implements Subscription<Body> {
  readonly ready: Promise<void>;
  readonly #connection: Connection;
  readonly #stream: ServerStream<Item>;
  readonly #codec: Codec;
  /** Its end is none of the broker's: this side has left, or was told of it. */
  #left = false;
  /** Settles with the read that was asked for last: what comes before an event belongs to it. */
  #lastRead: Promise<unknown>;

  constructor(connection: Connection, stream: ServerStream<Item>, codec: Codec) {
    this.#connection = connection;
    this.#stream = stream;
    this.#codec = codec;
    this.ready = this.#begin();
    this.#lastRead = this.ready.catch(() => {}); // who reads the events gets it as well
  }

  async #begin(): Promise<void> {
    try {
      const { done, value } = await this.#stream.next();
      if (done === true || value === this.#codec.name) return;
      throw typeof value === 'string' ? codecError(this.#codec.name, value) : nonsense();
    } catch (error) {
      this.#stream.cancel(error);
      throw refusal(error, 'subscriber');
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<PubsubEvent<Body>, undefined>> {
    const read = this.#lastRead.then(() => this.#next());
    this.#lastRead = read.catch(() => {});
    return read;
  }

  async #next(): Promise<IteratorResult<PubsubEvent<Body>, undefined>> {
    await this.ready;
    let dropped = 0;
    try {
      for (;;) {
        const { done, value } = await this.#stream.next();
        if (done === true) {
          if (!this.#left) throw releasedError('subscriber', 'subscribe again, as resubscribe does,');
          return { done, value: undefined };
        }
        if (value instanceof Uint8Array) return { done: false, value: this.#read(value, dropped) };
        if (!Number.isSafeInteger(value) || (value as number) < 1) throw nonsense();
        dropped += value as number;
      }
    } catch (error) {
      this.#left = true;
      this.#stream.cancel(error); // after an event that cannot be read as well, where the stream has not ended
      throw refusal(error, 'subscriber');
    }
  }

  #read(bytes: Uint8Array, dropped: number): PubsubEvent<Body> {
    const event = this.#codec.decode(bytes, 0, bytes.byteLength) as PubsubEvent<Body> | null | undefined;
    if (typeof event?.topic !== 'string') throw nonsense();
    const { topic, body } = event;
    const headers = receivedHeaders(event.headers, nonsense);
    if (pubsubChannels.event.hasSubscribers) {
      pubsubChannels.event.traceSync(() => {}, { topic, connection: this.#connection, headers });
    }
    return { topic, body, headers, dropped };
  }

  async return(): Promise<IteratorResult<PubsubEvent<Body>, undefined>> {
    await this.#leave();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave();
  }

  async #leave(): Promise<void> {
    this.#left = true;
    await this.#stream.return();
  }
}

function nonsense(cause?: unknown): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_PROTOCOL', 'the broker sent what is no event', { cause });
}
