import { Figures } from './figures.js';
import { PEER_NAMES } from './peers.js';
import type { Placement } from './run/placement.js';
import type { ContestantName, Metric, Sample, ScenarioName } from './scenarios.js';
import { spread } from './statistics.js';
import type { Unavailable } from './unavailable.js';

/** One contestant divided by another, with the goal that the project has set itself. */
export interface RatioDefinition {
  readonly name: string;
  readonly of: ContestantName;
  /** Of several, the best one in this metric. Of none, the figure itself is what the goal is for. */
  readonly to: readonly ContestantName[];
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
const scale = { scenario: 'scale-64B', pick: 'median' } as const;
const calls = { scenario: 'calls-64B', pick: 'median' } as const;
const machine = { placement: 'one-core', where: 'machine' } as const;
// Two processes that poll cannot share a core: each would wait for the end of the other's time slice.
const guest = { placement: 'core-each', where: 'guest' } as const;

export const RATIOS: readonly RatioDefinition[] = [
  {
    name: 'tcp_rtt_vs_net',
    of: 'tcp',
    to: ['net'],
    ...roundTrip,
    ...machine,
    goal: 1.05,
    direction: 'at-most',
  },
  { name: 'tcp_rate_vs_net', of: 'tcp', to: ['net'], ...rate, ...machine, goal: 2, direction: 'at-least' },
  {
    name: 'tcp_rate_vs_net_gathered',
    of: 'tcp',
    to: ['net-gathered'],
    ...rate,
    ...machine,
    goal: 0.8,
    direction: 'at-least',
  },
  {
    name: 'tcp_large_vs_net',
    of: 'tcp',
    to: ['net-gathered'],
    scenario: 'large-1MiB',
    metric: 'megabytesPerSecond',
    pick: 'median',
    ...machine,
    goal: 0.9,
    direction: 'at-least',
  },
  {
    name: 'auto_rtt_vs_tcp',
    of: 'auto',
    to: ['tcp'],
    ...roundTrip,
    ...machine,
    goal: 1.1,
    direction: 'at-most',
  },
  {
    name: 'auto_rate_vs_tcp',
    of: 'auto',
    to: ['tcp'],
    ...rate,
    ...machine,
    goal: 0.9,
    direction: 'at-least',
  },
  {
    name: 'scale_1000_vs_1',
    of: 'tcp-1000',
    to: ['tcp'],
    ...scale,
    metric: 'messagesPerSecond',
    ...machine,
    goal: 0.8,
    direction: 'at-least',
  },
  {
    name: 'tcp_connection_kib',
    of: 'tcp-1000',
    to: [],
    ...scale,
    metric: 'connectionKib',
    ...machine,
    goal: 64,
    direction: 'at-most',
  },
  {
    name: 'rpc_rate_vs_best_peer',
    of: 'rpc-tcp',
    to: PEER_NAMES,
    ...calls,
    metric: 'messagesPerSecond',
    ...machine,
    goal: 1.5,
    direction: 'at-least',
  },
  {
    name: 'rpc_rtt_vs_best_peer',
    of: 'rpc-tcp',
    to: PEER_NAMES,
    scenario: 'call-64B',
    metric: 'p50Micros',
    pick: 'best',
    ...machine,
    goal: 1,
    direction: 'at-most',
  },
  {
    name: 'rpc_cpu_vs_best_peer',
    of: 'rpc-tcp',
    to: PEER_NAMES,
    ...calls,
    metric: 'cpuMicrosPerMessage',
    ...machine,
    goal: 0.7,
    direction: 'at-most',
  },
  {
    name: 'rdma_adaptive_vs_c_event',
    of: 'rdma-adaptive',
    to: ['c-event'],
    ...roundTrip,
    ...guest,
    goal: 0.85,
    direction: 'at-most',
  },
  {
    name: 'rdma_adaptive_vs_c_poll',
    of: 'rdma-adaptive',
    to: ['c-poll'],
    ...roundTrip,
    ...guest,
    goal: 3,
    direction: 'at-most',
  },
  {
    name: 'rdma_event_vs_c_event',
    of: 'rdma-event',
    to: ['c-event'],
    ...roundTrip,
    ...guest,
    goal: 1.4,
    direction: 'at-most',
  },
  {
    name: 'net_vs_rdma_adaptive',
    of: 'net',
    to: ['rdma-adaptive'],
    ...roundTrip,
    ...guest,
    goal: 4,
    direction: 'at-least',
  },
  {
    name: 'large_vs_read_bw',
    of: 'push-rdma',
    to: ['c-read-bw'],
    scenario: 'push-1MiB',
    metric: 'megabytesPerSecond',
    pick: 'median',
    ...guest,
    goal: 0.9,
    direction: 'at-least',
  },
  {
    name: 'rate_vs_send_bw',
    of: 'push-rdma',
    to: ['c-send-bw'],
    scenario: 'push-64B',
    metric: 'messagesPerSecond',
    pick: 'median',
    ...guest,
    goal: 0.7,
    direction: 'at-least',
  },
  {
    name: 'onesided_cpu_vs_tcp',
    of: 'read-rdma',
    to: ['read-tcp'],
    scenario: 'read-64KiB',
    metric: 'serverCpuMicrosPerMessage',
    pick: 'median',
    ...guest,
    goal: 0.1,
    direction: 'at-most',
  },
  {
    name: 'auto_rdma_rtt_vs_rdma',
    of: 'auto-rdma',
    to: ['rdma-adaptive'],
    ...roundTrip,
    ...guest,
    goal: 1.1,
    direction: 'at-most',
  },
  {
    name: 'rpc_over_rdma_vs_raw',
    of: 'rpc-rdma',
    to: ['rdma-adaptive'],
    ...roundTrip,
    ...guest,
    goal: 1.4,
    direction: 'at-most',
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
  const { name, of, to, metric, placement, goal, direction } = definition;
  const where = `${definition.scenario}, ${placement}`;
  const measured = Figures.of(definition, samples, placement);
  const ratio = measured.ratio();
  if (ratio === undefined) {
    const missing = [of, ...to].filter((one) => !measured.has(one));
    const reasons = missing.map(
      (one) => unavailable.get(one)?.reason ?? `${one} was not measured in ${where}`,
    );
    return { name, reason: [...new Set(reasons)].join('; ') };
  }
  const elsewhere: Partial<Record<Placement, number>> = {};
  for (const place of new Set(samples.map((sample) => sample.placement))) {
    const other = place === placement ? undefined : Figures.of(definition, samples, place).ratio();
    if (other !== undefined) elsewhere[place] = other.value;
  }
  const quotient = ratio.to === undefined ? of : `${of} ÷ ${ratio.to}`;
  return {
    name,
    value: ratio.value,
    goal,
    direction,
    holds: direction === 'at-most' ? ratio.value <= goal : ratio.value >= goal,
    basis: `${metric} of ${quotient}, ${where}, ${definition.pick} of the rounds`,
    spread: spread(ratio.rounds),
    elsewhere,
  };
}

export function isPresent(ratio: Ratio | AbsentRatio): ratio is Ratio {
  return 'value' in ratio;
}

export function isAbsent(ratio: Ratio | AbsentRatio): ratio is AbsentRatio {
  return 'reason' in ratio;
}
