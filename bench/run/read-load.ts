import type { ReadClient } from '../contestants/contestant.js';
import type { LoadResult, LoadSpec } from './load-result.js';
import { checkParts } from './marking.js';
import { Phase } from './phase.js';

/** Reads the server's memory, `inFlight` blocks at a time, and checks each block. */
export async function runReads(
  client: ReadClient,
  { bytes, inFlight, durationMs }: LoadSpec,
): Promise<LoadResult> {
  const phase = new Phase(durationMs);
  let messages = 0;
  const reader = async (): Promise<void> => {
    const target = new Uint8Array(bytes);
    do {
      checkParts(target, await client.read(target));
      messages++;
    } while (!phase.over);
  };
  await Promise.all(Array.from({ length: inFlight }, reader));
  return phase.result(messages);
}
