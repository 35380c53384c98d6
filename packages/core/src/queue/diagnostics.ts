import { tracingChannel } from 'node:diagnostics_channel';
import type { Connection } from '../contract/connection.js';
import type { MessageHeaders } from '../rpc/message-headers.js';
import type { Verdict } from './consumer.js';

/** A push, for all of its events one object, so that subscribers may keep their own in it. */
export interface PushTrace {
  readonly queue: string;
  /** `undefined` where the process of the broker pushes. */
  readonly connection: Connection | undefined;
  /** What is set here at `start` travels with the job: the place for `traceparent`. */
  readonly headers: Record<string, string>;
  error?: unknown;
}

/** A job at the consumer that it was given to, for all of its events one object. */
export interface JobTrace {
  readonly queue: string;
  readonly connection: Connection;
  /** 1 when it is given for the first time. */
  readonly attempt: number;
  /** What came with it. */
  readonly headers: MessageHeaders;
  /** What the consumer said of it; `undefined` until then, and where it said nothing. */
  verdict: Verdict['verdict'] | undefined;
  error?: unknown;
}

/**
 * Tracing channels (`tracing:verbmq:queue:push:start` and so on). A push is over when the queue has the job; a job is over when it
 * was judged, or when its consumer has left or is lost, which is an `error`. The handler of `work` runs within the store that a subscriber
 * binds to `start`; the body of a loop over `consume` cannot, and finds the context in the job's `headers`. Costs nothing while
 * nobody has subscribed.
 */
export const queueChannels = {
  push: tracingChannel<unknown, PushTrace>('verbmq:queue:push'),
  job: tracingChannel<unknown, JobTrace>('verbmq:queue:job'),
} as const;
