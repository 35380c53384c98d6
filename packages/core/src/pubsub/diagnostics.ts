import { tracingChannel } from 'node:diagnostics_channel';
import type { Connection } from '../contract/connection.js';
import type { MessageHeaders } from '../rpc/message-headers.js';

/** What is published, for all of its events one object, so that subscribers may keep their own in it. */
export interface PublishTrace {
  readonly topic: string;
  /** `undefined` where the process of the broker publishes. */
  readonly connection: Connection | undefined;
  /** What is set here at `start` travels to all subscribers: the place for `traceparent`. */
  readonly headers: Record<string, string>;
  error?: unknown;
}

/** An event at a subscriber that gets it. */
export interface EventTrace {
  readonly topic: string;
  readonly connection: Connection;
  /** What came with it. */
  readonly headers: MessageHeaders;
}

/**
 * Tracing channels (`tracing:verbmq:pubsub:publish:start` and so on). Publishing is over when the broker has passed the event on:
 * at `asyncEnd`, or in the process of the broker at `end`. An event has a `start` and an `end`, at once, when it is given to the program;
 * what the program does about it finds the context in the event's `headers`. Costs nothing while nobody has subscribed.
 */
export const pubsubChannels = {
  publish: tracingChannel<unknown, PublishTrace>('verbmq:pubsub:publish'),
  event: tracingChannel<unknown, EventTrace>('verbmq:pubsub:event'),
} as const;
