import type { ReadClient } from '../contestants/contestant.js';
import { cpuSince, type LoadResult, type LoadSpec } from './load-result.js';
import { checkParts } from './marking.js';

/** Reads the server's memory, `inFlight` blocks at a time, and checks each block. */
export async function runReads(
  client: ReadClient,
  { bytes, inFlight, durationMs }: LoadSpec,
): Promise<LoadResult> {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  let ending = false;
  setTimeout(() => {
    ending = true;
  }, durationMs);
  let messages = 0;
  const reader = async (): Promise<void> => {
    const target = new Uint8Array(bytes);
    do {
      checkParts(target, await client.read(target));
      messages++;
    } while (!ending);
  };
  await Promise.all(Array.from({ length: inFlight }, reader));
  return { messages, elapsedMs: performance.now() - startedAt, cpuMicros: cpuSince(cpu) };
}
