import type { Unavailable } from './availability.js';
import type { Placement } from './run/placement.js';
import { type ContestantName, METRICS, type Metric, type Sample, type ScenarioName } from './scenarios.js';
import { best, median, spread } from './statistics.js';

/** One contestant divided by another, with the goal that the project has set itself. */
export interface RatioDefinition {
  readonly name: string;
  readonly of: ContestantName;
  readonly to: ContestantName;
  readonly scenario: ScenarioName;
  readonly metric: Metric;
  readonly placement: Placement;
  /** Of the rounds, the best (noise only adds to a round trip) or the median. */
  readonly pick: 'best' | 'median';
  readonly goal: number;
  readonly direction: 'at-most' | 'at-least';
  /** The goals of RDMA hold for Soft-RoCE in the guest, those of TCP for the machine itself. */
  readonly where: 'machine' | 'guest';
}

export interface Ratio {
  readonly name: string;
  readonly value: number;
  readonly goal: number;
  readonly direction: 'at-most' | 'at-least';
  readonly holds: boolean;
  /** What was divided, in words. */
  readonly basis: string;
  /** How far the ratios of the single rounds are apart: see `spread` in statistics.ts. */
  readonly spread: number;
  /** The same ratio with the processes placed otherwise; the goal is not for these. */
  readonly elsewhere: Partial<Record<Placement, number>>;
}

export interface AbsentRatio {
  readonly name: string;
  readonly reason: string;
}

const roundTrip = { scenario: 'rtt-64B', metric: 'p50Micros', pick: 'best' } as const;
const rate = { scenario: 'rate-64B', metric: 'messagesPerSecond', pick: 'median' } as const;
const machine = { placement: 'one-core', where: 'machine' } as const;
// Two processes that poll cannot share a core: each would wait for the end of the other's time slice.
const guest = { placement: 'core-each', where: 'guest' } as const;

export const RATIOS: readonly RatioDefinition[] = [
  {
    name: 'tcp_rtt_vs_net',
    of: 'tcp',
    to: 'net',
    ...roundTrip,
    ...machine,
    goal: 1.05,
    direction: 'at-most',
  },
  { name: 'tcp_rate_vs_net', of: 'tcp', to: 'net', ...rate, ...machine, goal: 2, direction: 'at-least' },
  {
    name: 'tcp_rate_vs_net_gathered',
    of: 'tcp',
    to: 'net-gathered',
    ...rate,
    ...machine,
    goal: 0.8,
    direction: 'at-least',
  },
  {
    name: 'tcp_large_vs_net',
    of: 'tcp',
    to: 'net-gathered',
    scenario: 'large-1MiB',
    metric: 'megabytesPerSecond',
    pick: 'median',
    ...machine,
    goal: 0.9,
    direction: 'at-least',
  },
  {
    name: 'rdma_adaptive_vs_c_event',
    of: 'rdma-adaptive',
    to: 'c-event',
    ...roundTrip,
    ...guest,
    goal: 0.85,
    direction: 'at-most',
  },
  {
    name: 'rdma_adaptive_vs_c_poll',
    of: 'rdma-adaptive',
    to: 'c-poll',
    ...roundTrip,
    ...guest,
    goal: 3,
    direction: 'at-most',
  },
  {
    name: 'rdma_event_vs_c_event',
    of: 'rdma-event',
    to: 'c-event',
    ...roundTrip,
    ...guest,
    goal: 1.4,
    direction: 'at-most',
  },
  {
    name: 'net_vs_rdma_adaptive',
    of: 'net',
    to: 'rdma-adaptive',
    ...roundTrip,
    ...guest,
    goal: 4,
    direction: 'at-least',
  },
];

/**
 * The ratio, or why there is none: nothing is filled in for what was not measured.
 * @param unavailable why contestants could not be measured
 */
export function computeRatio(
  definition: RatioDefinition,
  samples: readonly Sample[],
  unavailable: ReadonlyMap<ContestantName, Unavailable> = new Map(),
): Ratio | AbsentRatio {
  const { name, of, to, placement, goal, direction } = definition;
  const where = `${definition.scenario}, ${placement}`;
  const value = quotient(definition, samples, placement);
  if (value === undefined) {
    const missing = [of, to].filter((one) => valuesOf(definition, samples, one, placement).size === 0);
    const reasons = missing.map(
      (one) => unavailable.get(one)?.reason ?? `${one} was not measured in ${where}`,
    );
    return { name, reason: [...new Set(reasons)].join('; ') };
  }
  const places = new Set(samples.map((sample) => sample.placement));
  places.delete(placement);
  const elsewhere: Partial<Record<Placement, number>> = {};
  for (const place of places) {
    const other = quotient(definition, samples, place);
    if (other !== undefined) elsewhere[place] = other;
  }
  return {
    name,
    value,
    goal,
    direction,
    holds: direction === 'at-most' ? value <= goal : value >= goal,
    basis: `${definition.metric} of ${of} ÷ ${to}, ${where}, ${definition.pick} of the rounds`,
    spread: spread(roundQuotients(definition, samples)),
    elsewhere,
  };
}

export function isPresent(ratio: Ratio | AbsentRatio): ratio is Ratio {
  return 'value' in ratio;
}

export function isAbsent(ratio: Ratio | AbsentRatio): ratio is AbsentRatio {
  return 'reason' in ratio;
}

function quotient(
  definition: RatioDefinition,
  samples: readonly Sample[],
  place: Placement,
): number | undefined {
  const pick = (contestant: ContestantName): number => {
    const values = [...valuesOf(definition, samples, contestant, place).values()];
    return definition.pick === 'best' ? best(values, METRICS[definition.metric]) : median(values);
  };
  const value = pick(definition.of) / pick(definition.to);
  return Number.isNaN(value) ? undefined : value;
}

/** The ratio within each round that has both. */
function roundQuotients(definition: RatioDefinition, samples: readonly Sample[]): number[] {
  const of = valuesOf(definition, samples, definition.of, definition.placement);
  const to = valuesOf(definition, samples, definition.to, definition.placement);
  return [...of].flatMap(([round, value]) => {
    const divisor = to.get(round);
    return divisor === undefined ? [] : [value / divisor];
  });
}

/** The values of one contestant by round. */
function valuesOf(
  { scenario, metric }: RatioDefinition,
  samples: readonly Sample[],
  contestant: ContestantName,
  placement: Placement,
): Map<number, number> {
  const values = new Map<number, number>();
  for (const sample of samples) {
    const value = sample.measures[metric];
    const wanted =
      sample.scenario === scenario && sample.placement === placement && sample.contestant === contestant;
    if (wanted && value !== undefined) values.set(sample.round, value);
  }
  return values;
}
