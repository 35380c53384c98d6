import type { Environment } from '../environment.js';
import type { AbsentRatio, Ratio } from '../ratios.js';
import type { Placement } from '../run/placement.js';
import type { Failure } from '../run/rounds.js';
import { METRICS, type Metric, type Sample } from '../scenarios.js';
import { best, median, spread } from '../statistics.js';
import type { Unavailable } from '../unavailable.js';

/** One figure: a metric of a contestant over all rounds. */
export interface Result {
  /** The scenario's name; with ` one-core` or ` core-each` behind it where the processes were pinned. */
  readonly scenario: string;
  readonly contestant: string;
  readonly metric: Metric;
  /** Median of the rounds. */
  readonly value: number;
  readonly best: number;
  /** See `spread` in statistics.ts. */
  readonly spread: number;
  readonly rounds: readonly number[];
}

/** What `--json` writes. */
export interface BenchReport {
  readonly environment: Environment;
  readonly options: { readonly rounds: number; readonly seconds: number };
  readonly results: readonly Result[];
  readonly ratios: readonly Ratio[];
  readonly absentRatios: readonly AbsentRatio[];
  readonly unavailable: readonly (Unavailable & {
    readonly contestant?: string;
    readonly placement?: Placement;
  })[];
  readonly failures: readonly Failure[];
  /** Measurements made again, and samples kept although something disturbed them. */
  readonly repeated: number;
  readonly disturbed: number;
}

function scenarioLabel({ scenario, placement }: Pick<Sample, 'scenario' | 'placement'>): string {
  return placement === 'free' ? scenario : `${scenario} ${placement}`;
}

/** Brings the rounds together. */
export function summarise(samples: readonly Sample[]): Result[] {
  const groups = new Map<
    string,
    { scenario: string; contestant: string; metric: Metric; rounds: number[] }
  >();
  for (const sample of samples) {
    for (const [metric, value] of Object.entries(sample.measures) as [Metric, number | undefined][]) {
      if (value === undefined) continue;
      const scenario = scenarioLabel(sample);
      const key = [scenario, sample.contestant, metric].join('\n');
      const group = groups.get(key) ?? { scenario, contestant: sample.contestant, metric, rounds: [] };
      group.rounds.push(value);
      groups.set(key, group);
    }
  }
  return [...groups.values()].map(({ scenario, contestant, metric, rounds }) => ({
    scenario,
    contestant,
    metric,
    value: median(rounds),
    best: best(rounds, METRICS[metric]),
    spread: spread(rounds),
    rounds,
  }));
}
