import type { CallClient } from '../contestants/contestant.js';
import type { LoadResult, LoadSpec } from './load-result.js';
import { checkAnswer, createMessage, mark } from './marking.js';
import { Phase } from './phase.js';
import { RoundTrips } from './round-trips.js';

/** Makes calls, `inFlight` at a time. Who has an answer checks it, and makes the next call. */
export async function runCalls(client: CallClient, spec: LoadSpec): Promise<LoadResult> {
  const { bytes, inFlight, durationMs } = spec;
  const roundTrips = inFlight === 1 ? new RoundTrips() : undefined;
  const phase = new Phase(durationMs);
  let calls = 0;

  const caller = async (): Promise<void> => {
    const message = createMessage(bytes);
    do {
      const number = calls++;
      mark(message, number);
      const sentAt = roundTrips === undefined ? 0 : performance.now();
      const answer = await client.call(message);
      if (roundTrips !== undefined) roundTrips.record(performance.now() - sentAt);
      checkAnswer(answer, bytes, number);
    } while (!phase.over);
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  const result = phase.result(calls);
  return roundTrips === undefined ? result : { ...result, roundTrip: roundTrips.summary() };
}
