import { isPeer, PEER_NAMES, PEERS } from './peers.js';
import type { Placement } from './run/placement.js';

/** The contestants; the table of contents of what is compared. */
export const CONTESTANTS = {
  net: 'node:net by hand, one write a message',
  'net-gathered': 'node:net by hand, writes gathered per turn of the event loop',
  'net-gathered-1000': 'the same over 1,000 connections',
  tcp: 'verbmq over TCP',
  'tcp-1000': 'verbmq over TCP, over 1,000 connections',
  unix: 'verbmq over a Unix socket',
  auto: 'verbmq, auto, on its TCP path',
  'auto-rdma': 'verbmq, auto, on its RDMA path, polling: adaptive',
  'rdma-event': 'verbmq over RDMA, polling: event',
  'rdma-adaptive': 'verbmq over RDMA, polling: adaptive',
  'rdma-busy': 'verbmq over RDMA, polling: busy',
  'rpc-tcp': 'rpc of verbmq over TCP',
  'rpc-unix': 'rpc of verbmq over a Unix socket',
  'rpc-rdma': 'rpc of verbmq over RDMA, polling: adaptive',
  'push-tcp': 'messages one way, verbmq over TCP',
  'push-rdma': 'messages one way, verbmq over RDMA, polling: adaptive',
  'read-tcp': 'one-sided reads, verbmq over TCP',
  'read-rdma': 'one-sided reads, verbmq over RDMA, polling: adaptive',
  'c-event': "perftest's ib_send_lat -e: C, sleeping until a completion comes",
  'c-poll': "perftest's ib_send_lat: C, polling all the time",
  'c-send-bw': "perftest's ib_send_bw: C, messages one way",
  'c-read-bw': "perftest's ib_read_bw: C, messages one way, read by the side that gets them",
  ...PEERS,
} as const;
export type ContestantName = keyof typeof CONTESTANTS;

/** How many connections the client of a contestant opens. Each of them carries the scenario's load. */
export function connectionsOf(name: ContestantName): number {
  return name.endsWith('-1000') ? 1000 : 1;
}

/** What is measured of a contestant, with its unit and the direction that is better. */
export const METRICS = {
  p50Micros: 'lower',
  p99Micros: 'lower',
  p999Micros: 'lower',
  messagesPerSecond: 'higher',
  megabytesPerSecond: 'higher',
  /** CPU time of both processes. Not counted: what the kernel does for them in interrupts. */
  cpuMicrosPerMessage: 'lower',
  /** The client's share of it, and that of the server with its helpers. */
  clientCpuMicrosPerMessage: 'lower',
  serverCpuMicrosPerMessage: 'lower',
  /** Resident memory that a connection holds in a process; not what the kernel holds for its socket. */
  connectionKib: 'lower',
} as const satisfies Record<string, 'lower' | 'higher'>;
export type Metric = keyof typeof METRICS;

/** What one measurement of one contestant gives. */
export type Measures = Partial<Record<Metric, number>>;

const RPC = ['rpc-tcp', 'rpc-unix'] as const;
const CPU = ['cpuMicrosPerMessage', 'clientCpuMicrosPerMessage', 'serverCpuMicrosPerMessage'] as const;

export const SCENARIOS = {
  'rtt-64B': {
    title: 'round trip of 64 bytes, one message at a time',
    bytes: 64,
    inFlight: 1,
    contestants: [
      'net',
      'tcp',
      'unix',
      'auto',
      'rdma-event',
      'rdma-adaptive',
      'rdma-busy',
      'auto-rdma',
      'rpc-rdma',
      'c-event',
      'c-poll',
    ],
    metrics: ['p50Micros', 'p99Micros', 'p999Micros', 'cpuMicrosPerMessage'],
  },
  'rate-64B': {
    title: 'messages of 64 bytes, 64 in flight',
    bytes: 64,
    inFlight: 64,
    contestants: [
      'net',
      'net-gathered',
      'tcp',
      'unix',
      'auto',
      'rdma-event',
      'rdma-adaptive',
      'rdma-busy',
      'auto-rdma',
    ],
    metrics: ['messagesPerSecond', 'cpuMicrosPerMessage'],
  },
  'large-1MiB': {
    title: 'messages of 1 MiB, 4 in flight; megabytes each way',
    bytes: 1024 * 1024,
    inFlight: 4,
    contestants: ['net', 'net-gathered', 'tcp', 'unix'],
    metrics: ['megabytesPerSecond', 'cpuMicrosPerMessage'],
  },
  'scale-64B': {
    title: 'messages of 64 bytes, 64 in flight on each connection',
    bytes: 64,
    inFlight: 64,
    contestants: ['net-gathered', 'net-gathered-1000', 'tcp', 'tcp-1000'],
    metrics: ['messagesPerSecond', 'cpuMicrosPerMessage', 'connectionKib'],
  },
  'push-64B': {
    title: 'messages of 64 bytes one way, as fast as they are taken',
    bytes: 64,
    inFlight: 64,
    contestants: ['push-tcp', 'push-rdma', 'c-send-bw'],
    metrics: ['messagesPerSecond', 'cpuMicrosPerMessage'],
  },
  'push-1MiB': {
    title: 'messages of 1 MiB one way, as fast as they are taken',
    bytes: 1024 * 1024,
    inFlight: 4,
    contestants: ['push-tcp', 'push-rdma', 'c-read-bw'],
    metrics: ['megabytesPerSecond', 'cpuMicrosPerMessage'],
  },
  'read-64KiB': {
    title: "one-sided reads of 64 KiB, 4 in flight; the server is the memory's owner",
    bytes: 64 * 1024,
    inFlight: 4,
    contestants: ['read-tcp', 'read-rdma'],
    metrics: ['messagesPerSecond', 'clientCpuMicrosPerMessage', 'serverCpuMicrosPerMessage'],
  },
  'call-64B': {
    title: 'calls with 64 bytes each way, one at a time',
    bytes: 64,
    inFlight: 1,
    contestants: [...RPC, ...PEER_NAMES],
    metrics: ['p50Micros', 'p99Micros', ...CPU],
  },
  'call-4KiB': {
    title: 'calls with 4 KiB each way, one at a time',
    bytes: 4096,
    inFlight: 1,
    contestants: [...RPC, ...PEER_NAMES],
    metrics: ['p50Micros', 'p99Micros', ...CPU],
  },
  'calls-64B': {
    title: 'calls with 64 bytes each way, 64 in flight',
    bytes: 64,
    inFlight: 64,
    contestants: [...RPC, ...PEER_NAMES],
    metrics: ['messagesPerSecond', ...CPU],
  },
  'calls-4KiB': {
    title: 'calls with 4 KiB each way, 64 in flight',
    bytes: 4096,
    inFlight: 64,
    contestants: [...RPC, ...PEER_NAMES],
    metrics: ['messagesPerSecond', ...CPU],
  },
  'calls-1MiB': {
    title: 'calls with 1 MiB each way, 4 in flight; megabytes each way',
    bytes: 1024 * 1024,
    inFlight: 4,
    contestants: [...RPC, ...PEER_NAMES],
    metrics: ['megabytesPerSecond', ...CPU],
  },
} as const satisfies Record<string, Scenario>;
export type ScenarioName = keyof typeof SCENARIOS;

/** Whether a scenario is one of `--peers`. */
export function isPeerScenario(name: ScenarioName): boolean {
  return (SCENARIOS[name].contestants as readonly ContestantName[]).some(isPeer);
}

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
