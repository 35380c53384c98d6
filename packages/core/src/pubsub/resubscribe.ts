import type { Connection } from '../contract/connection.js';
import type { ClientOptions } from '../rpc/client.js';
import { type PubsubEvent, pubsub, type SubscribeOptions } from './client.js';

export interface ResubscribedEvent<Body> extends PubsubEvent<Body> {
  /** The first event after a connection was lost: what was published in between, and what was under way, is missing. */
  readonly gap: boolean;
}

/**
 * Subscribes, and again on a new connection whenever one is lost. A connection that resumes its session by itself goes on
 * without a gap; this is for what comes after that.
 *
 * @param connect gives an open connection each time; it may wait as long as it likes between its attempts. What it rejects
 *   with ends the iteration, as does what the broker refuses.
 */
export async function* resubscribe<Body>(
  connect: () => Promise<Connection>,
  pattern: string,
  options: SubscribeOptions & { readonly client?: ClientOptions } = {},
): AsyncGenerator<ResubscribedEvent<Body>, undefined> {
  let gap = false;
  for (;;) {
    const connection = await connect();
    try {
      for await (const event of pubsub(connection, options.client).subscribe<Body>(pattern, options)) {
        yield { ...event, gap };
        gap = false;
      }
      return; // the broker has ended the subscription
    } catch (error) {
      if (connection.state === 'open' || options.signal?.aborted) throw error;
      gap = true;
    }
  }
}
