import type { RoundTripSummary } from './round-trips.js';

export interface LoadSpec {
  /** Length of each message. */
  readonly bytes: number;
  /** Messages that are on their way at any time. */
  readonly inFlight: number;
  readonly durationMs: number;
}

export interface LoadResult {
  /** Messages that were answered, rightly. */
  readonly messages: number;
  readonly elapsedMs: number;
  /** CPU time of this process during the load, in microseconds. */
  readonly cpuMicros: number;
  /** Present where one message is on its way at a time. */
  readonly roundTrip?: RoundTripSummary;
}

/** CPU time of this process since then, in microseconds. */
export function cpuSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return user + system;
}
