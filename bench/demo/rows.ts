import type { ProbeResult, Transport } from '@verbmq/core';
import { RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';
import type { NodeContestantName } from '../contestants/index.js';
import { findRdmaHost } from '../contestants/rdma-host.js';
import type { Progress } from '../report/progress.js';
import { EchoPair } from '../run/echo-pair.js';

/** What the demo shows: a transport, and a row of the table for each way to run it. */
export interface DemoTransport {
  readonly title: string;
  probe(): Promise<ProbeResult>;
  readonly rows: readonly DemoRow[];
}

export interface DemoRow {
  readonly title: string;
  readonly contestant: NodeContestantName;
}

export interface DemoResult {
  readonly title: string;
  readonly outcome: DemoOutcome;
}

export type DemoOutcome =
  | {
      readonly kind: 'measured';
      /** Round trip, in nanoseconds. */
      readonly p50: number;
      readonly p99: number;
      readonly p999: number;
      readonly messagesPerSecond: number;
      /** Of both processes. */
      readonly cpuNanosPerMessage: number;
    }
  | { readonly kind: 'unavailable'; readonly reason: string; readonly remedy: string }
  | { readonly kind: 'failed'; readonly error: Error };

export const DEMO_TRANSPORTS: readonly DemoTransport[] = [
  {
    title: 'TCP',
    probe: () => probe(new TcpTransport()),
    rows: [{ title: 'TCP', contestant: 'tcp' }],
  },
  {
    title: 'Unix socket',
    probe: () => probe(new TcpTransport()),
    rows: [{ title: 'Unix socket', contestant: 'unix' }],
  },
  {
    title: 'auto, on TCP',
    probe: () => probe(new TcpTransport()),
    rows: [{ title: 'auto, on TCP', contestant: 'auto' }],
  },
  {
    title: 'RDMA',
    probe: probeRdma,
    rows: [
      { title: 'RDMA, event', contestant: 'rdma-event' },
      { title: 'RDMA, adaptive', contestant: 'rdma-adaptive' },
      { title: 'auto, on RDMA', contestant: 'auto-rdma' },
    ],
  },
];

const MESSAGE_BYTES = 64;
export const IN_FLIGHT = 64;

export interface DemoTimes {
  /** The most that the warm-up may take, in steps of an eighth of it. */
  readonly warmUpMs: number;
  readonly measuredMs: number;
}
const TIMES: DemoTimes = { warmUpMs: 4000, measuredMs: 2000 };
/** V8 has compiled by then what there is to compile. An emulated machine does not get so far in time, others at once. */
const WARM_MESSAGES = 20_000;
const STEPS_PER_ROW = 2;

/** How many steps {@link runDemo} announces. */
export const DEMO_STEPS = DEMO_TRANSPORTS.flatMap(({ rows }) => rows).length * STEPS_PER_ROW;

/** Runs the echo service and its client, in two processes, over each transport in turn. Never rejects. */
export async function runDemo(
  progress: Progress,
  times: DemoTimes = TIMES,
  transports: readonly DemoTransport[] = DEMO_TRANSPORTS,
): Promise<DemoResult[]> {
  const results: DemoResult[] = [];
  for (const transport of transports) {
    const found = await transport.probe();
    if (!found.available) {
      progress.skip(transport.rows.length * STEPS_PER_ROW);
      results.push({ title: transport.title, outcome: { kind: 'unavailable', ...found } });
      continue;
    }
    for (const row of transport.rows) {
      results.push({ title: row.title, outcome: await measureRow(row, progress, times) });
    }
  }
  return results;
}

async function measureRow(row: DemoRow, progress: Progress, times: DemoTimes): Promise<DemoOutcome> {
  try {
    progress.next(`${row.title}: round trips, one message at a time`);
    const pair = await EchoPair.start(row.contestant);
    try {
      await warmUp(pair, times.warmUpMs);
      const sequential = await pair.load({ bytes: MESSAGE_BYTES, inFlight: 1, durationMs: times.measuredMs });
      progress.next(`${row.title}: ${IN_FLIGHT} messages in flight`);
      const pipelined = await pair.load({
        bytes: MESSAGE_BYTES,
        inFlight: IN_FLIGHT,
        durationMs: times.measuredMs,
      });
      if (sequential.roundTrip === undefined) throw new Error('the round trips were not timed');
      return {
        kind: 'measured',
        ...sequential.roundTrip,
        messagesPerSecond: (pipelined.messages / pipelined.elapsedMs) * 1000,
        cpuNanosPerMessage: (pipelined.pairCpuMicros * 1000) / pipelined.messages,
      };
    } finally {
      await pair.stop();
    }
  } catch (error) {
    return { kind: 'failed', error: error as Error };
  }
}

async function warmUp(pair: EchoPair, limitMs: number): Promise<void> {
  const durationMs = limitMs / 8;
  let messages = 0;
  for (let step = 1; step <= 7 && messages < WARM_MESSAGES; step++) {
    messages += (await pair.load({ bytes: MESSAGE_BYTES, inFlight: IN_FLIGHT, durationMs })).messages;
  }
  await pair.load({ bytes: MESSAGE_BYTES, inFlight: 1, durationMs });
}

async function probe(transport: Transport): Promise<ProbeResult> {
  await using probed = transport;
  return await probed.probe();
}

async function probeRdma(): Promise<ProbeResult> {
  const found = await probe(new RdmaTransport());
  if (!found.available || (await findRdmaHost()) !== undefined) return found;
  return {
    available: false,
    code: 'no-address',
    reason: 'there is an RDMA device, but RDMA cannot listen on any address of this machine',
    remedy:
      "give the device's network interface an IP address, or name the address to use in VERBMQ_RDMA_ADDRESS",
  };
}
