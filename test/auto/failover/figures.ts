import type { Pauses } from '../../../bench/report/failover.js';

/** Measured times by what they were measured of. */
export class Figures {
  readonly #timesMs = new Map<string, number[]>();

  add(kind: string, ms: number): void {
    const times = this.#timesMs.get(kind) ?? [];
    times.push(ms);
    this.#timesMs.set(kind, times);
  }

  /** For each kind its percentiles, and the times themselves, so that runs can be put together. */
  summary(): Record<string, Pauses> {
    return Object.fromEntries(
      [...this.#timesMs]
        .sort(([one], [other]) => one.localeCompare(other))
        .map(([kind, ms]) => [kind, pauses(ms)]),
    );
  }
}

function pauses(ms: readonly number[]): Pauses {
  const sorted = ms.map(Math.round).sort((one, other) => one - other);
  const percentile = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] as number;
  return {
    count: sorted.length,
    p50: percentile(0.5),
    max: percentile(1),
    all: sorted,
  };
}
