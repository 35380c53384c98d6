import { isNodeContestant, type NodeContestantName } from '../contestants/index.js';
import { rdmaHost } from '../contestants/rdma-host.js';
import { measureTool } from '../perftest/index.js';
import type { ContestantName, Measures, Scenario } from '../scenarios.js';
import { EchoPair, type PairResult } from './echo-pair.js';
import { type Disturbance, disturbanceBetween, readMachineTimes } from './machine-load.js';
import type { Placement } from './placement.js';

const WARM_UP_IN_FLIGHT = 16;
/** The most that is in flight only to warm up. */
const WARM_UP_BYTES = 1024 * 1024;
/** What passes before anything is measured, unless that takes too long: in the guest a large message takes a thirtieth of a second. */
const WARM_UP_MESSAGES = 2000;
const WARM_UP_LIMIT_MS = 5000;
/** The most that it takes until the rate is steady, in times of what a warm-up should take. */
const WARM_UP_LIMIT_FACTOR = 5;
/** A rate that is not higher than the best before by so much has not grown. */
const STEADY_GROWTH = 1.03;
/** It is steady when it has not grown for so many slices. */
const STEADY_SLICES = 4;

export interface MeasureOptions {
  readonly placement: Placement;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly nodeOptions: readonly string[];
}

export interface Measured {
  readonly measures: Measures;
  readonly disturbance: Disturbance;
}

/** Measures one contestant once, in fresh processes. */
export async function measure(
  scenario: Scenario,
  contestant: ContestantName,
  options: MeasureOptions,
): Promise<Measured> {
  if (isNodeContestant(contestant)) return await measureNode(scenario, contestant, options);
  const before = readMachineTimes();
  const { seconds, placement } = options;
  const measures = await measureTool(contestant, scenario, { seconds, host: rdmaHost(), placement });
  return {
    measures,
    disturbance: disturbanceBetween(before, readMachineTimes(), undefined),
  };
}

async function measureNode(
  scenario: Scenario,
  contestant: NodeContestantName,
  { placement, seconds, warmUpSeconds, nodeOptions }: MeasureOptions,
): Promise<Measured> {
  const { bytes, inFlight } = scenario;
  const pair = await EchoPair.start(contestant, { placement, nodeOptions });
  try {
    await warmUp(pair, scenario, warmUpSeconds);
    const before = readMachineTimes();
    const result = await pair.load({ bytes, inFlight, durationMs: seconds * 1000 });
    return {
      measures: measuresOf(scenario, result, pair.connectionKib),
      disturbance: disturbanceBetween(before, readMachineTimes(), result.pairCpuMicros / 1e6),
    };
  } finally {
    await pair.stop();
  }
}

/**
 * V8 compiles what has run some thousand times, on a thread that has to share the processor where a process has only one. One message
 * at a time that takes long where everything is slow, so many are in flight at first. Then it goes on until the rate does not
 * grow any more. Of large messages few pass in a short time, so they go on until enough have passed.
 */
async function warmUp(pair: EchoPair, { bytes, inFlight }: Scenario, seconds: number): Promise<void> {
  const durationMs = (seconds * 1000) / 4;
  const many = bytes * WARM_UP_IN_FLIGHT <= WARM_UP_BYTES ? Math.max(inFlight, WARM_UP_IN_FLIGHT) : inFlight;
  let { messages } = await pair.load({ bytes, inFlight: many, durationMs: 2 * durationMs });
  const startedAt = performance.now();
  const steadyLimitMs = WARM_UP_LIMIT_FACTOR * seconds * 1000;
  let best = 0;
  let slicesWithoutGrowth = 0;
  let elapsedMs = 0;
  while (
    (messages < WARM_UP_MESSAGES && elapsedMs < WARM_UP_LIMIT_MS) ||
    (slicesWithoutGrowth < STEADY_SLICES && elapsedMs < steadyLimitMs)
  ) {
    const slice = await pair.load({ bytes, inFlight, durationMs });
    messages += slice.messages;
    const rate = slice.messages / slice.elapsedMs;
    slicesWithoutGrowth = rate > best * STEADY_GROWTH ? 0 : slicesWithoutGrowth + 1;
    best = Math.max(best, rate);
    elapsedMs = performance.now() - startedAt;
  }
}

function measuresOf(scenario: Scenario, result: PairResult, connectionKib: number | undefined): Measures {
  const { messages, cpuMicros, pairCpuMicros, roundTrip } = result;
  const messagesPerSecond = (messages / result.elapsedMs) * 1000;
  const all: Measures = {
    messagesPerSecond,
    megabytesPerSecond: (messagesPerSecond * scenario.bytes) / 1e6,
    cpuMicrosPerMessage: pairCpuMicros / messages,
    clientCpuMicrosPerMessage: cpuMicros / messages,
    serverCpuMicrosPerMessage: (pairCpuMicros - cpuMicros) / messages,
    ...(connectionKib === undefined ? {} : { connectionKib }),
    ...(roundTrip === undefined
      ? {}
      : {
          p50Micros: roundTrip.p50 / 1000,
          p99Micros: roundTrip.p99 / 1000,
          p999Micros: roundTrip.p999 / 1000,
        }),
  };
  return Object.fromEntries(scenario.metrics.map((metric) => [metric, all[metric]]));
}
