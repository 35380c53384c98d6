import type { Placement } from './run/placement.js';

/** The contestants; the table of contents of what is compared. */
export const CONTESTANTS = {
  net: 'node:net by hand, one write a message',
  'net-gathered': 'node:net by hand, writes gathered per turn of the event loop',
  tcp: 'verbmq over TCP',
  unix: 'verbmq over a Unix socket',
  'rdma-event': 'verbmq over RDMA, polling: event',
  'rdma-adaptive': 'verbmq over RDMA, polling: adaptive',
  'rdma-busy': 'verbmq over RDMA, polling: busy',
  'c-event': "perftest's ib_send_lat -e: C, sleeping until a completion comes",
  'c-poll': "perftest's ib_send_lat: C, polling all the time",
} as const;
export type ContestantName = keyof typeof CONTESTANTS;

/** What is measured of a contestant, with its unit and the direction that is better. */
export const METRICS = {
  p50Micros: 'lower',
  p99Micros: 'lower',
  p999Micros: 'lower',
  messagesPerSecond: 'higher',
  megabytesPerSecond: 'higher',
  /** CPU time of both processes. Not counted: what the kernel does for them in interrupts. */
  cpuMicrosPerMessage: 'lower',
} as const satisfies Record<string, 'lower' | 'higher'>;
export type Metric = keyof typeof METRICS;

/** What one measurement of one contestant gives. */
export type Measures = Partial<Record<Metric, number>>;

export const SCENARIOS = {
  'rtt-64B': {
    title: 'round trip of 64 bytes, one message at a time',
    bytes: 64,
    inFlight: 1,
    contestants: ['net', 'tcp', 'unix', 'rdma-event', 'rdma-adaptive', 'rdma-busy', 'c-event', 'c-poll'],
    metrics: ['p50Micros', 'p99Micros', 'p999Micros', 'cpuMicrosPerMessage'],
  },
  'rate-64B': {
    title: 'messages of 64 bytes, 64 in flight',
    bytes: 64,
    inFlight: 64,
    contestants: ['net', 'net-gathered', 'tcp', 'unix', 'rdma-event', 'rdma-adaptive', 'rdma-busy'],
    metrics: ['messagesPerSecond', 'cpuMicrosPerMessage'],
  },
  'large-1MiB': {
    title: 'messages of 1 MiB, 4 in flight; megabytes each way',
    bytes: 1024 * 1024,
    inFlight: 4,
    contestants: ['net', 'net-gathered', 'tcp', 'unix'],
    metrics: ['megabytesPerSecond', 'cpuMicrosPerMessage'],
  },
} as const satisfies Record<string, Scenario>;
export type ScenarioName = keyof typeof SCENARIOS;

export interface Scenario {
  readonly title: string;
  readonly bytes: number;
  readonly inFlight: number;
  readonly contestants: readonly ContestantName[];
  readonly metrics: readonly Metric[];
}

/** What was measured of one contestant in one round. */
export interface Sample {
  readonly scenario: ScenarioName;
  readonly placement: Placement;
  readonly contestant: ContestantName;
  readonly round: number;
  readonly measures: Measures;
}
