import type { PushClient } from '../contestants/contestant.js';
import type { LoadResult, LoadSpec } from './load-result.js';
import { Phase } from './phase.js';

/**
 * Sends messages one way, as fast as they are taken: how many are on their way is for the transport's flow control to say.
 * The time ends when the server has counted them all.
 */
export async function runPush(client: PushClient, { bytes, durationMs }: LoadSpec): Promise<LoadResult> {
  const phase = new Phase(durationMs);
  let messages = 0;
  do {
    const room = client.push(messages++, bytes);
    if (room !== undefined) await room;
  } while (!phase.over);
  const counted = await client.confirm();
  if (counted !== messages) throw new Error(`of ${messages} messages the server counted ${counted}`);
  return phase.result(messages);
}
