import { tracingChannel } from 'node:diagnostics_channel';
import type { Connection } from '../contract/connection.js';

/** What subscribers of the tracing channels get; one object for all events of a call, so that they may keep their own in it. */
export interface RpcTrace {
  readonly method: string;
  readonly connection: Connection;
  readonly kind: 'unary' | 'stream';
  /** At a client, what is set here at `start` travels with the call: the place for `traceparent`. At a server, what came. */
  readonly metadata: Record<string, string>;
  error?: unknown;
}

/**
 * Tracing channels (`tracing:verbmq:rpc:client:start` and so on): `start` and `end` around the synchronous part,
 * `asyncEnd` when the call is over, `error` when it failed. Handlers run within the store that a subscriber binds to `start`.
 * Costs nothing while nobody has subscribed.
 */
export const rpcChannels = {
  client: tracingChannel<unknown, RpcTrace>('verbmq:rpc:client'),
  server: tracingChannel<unknown, RpcTrace>('verbmq:rpc:server'),
} as const;
