import type { Placement } from '../run/placement.js';
import type { Measures, Scenario } from '../scenarios.js';
import { type BandwidthTool, bandwidth } from './bandwidth.js';
import { type CompletionMode, sendLatency } from './send-latency.js';

export interface ToolMeasureOptions {
  readonly seconds: number;
  /** An address of the RDMA device. */
  readonly host: string;
  readonly placement: Placement;
}

type MeasureTool = (scenario: Scenario, options: ToolMeasureOptions) => Promise<Measures>;

/** The contestants that are tools of perftest, by name. */
const TOOL_CONTESTANTS = {
  'c-event': latencyOf('event'),
  'c-poll': latencyOf('poll'),
  'c-send-bw': bandwidthOf('ib_send_bw'),
  'c-read-bw': bandwidthOf('ib_read_bw'),
} satisfies Record<string, MeasureTool>;

export type ToolContestantName = keyof typeof TOOL_CONTESTANTS;
export const TOOL_CONTESTANT_NAMES = Object.keys(TOOL_CONTESTANTS) as ToolContestantName[];

/** Measures a tool of perftest once, against itself. */
export function measureTool(
  name: ToolContestantName,
  scenario: Scenario,
  options: ToolMeasureOptions,
): Promise<Measures> {
  return TOOL_CONTESTANTS[name](scenario, options);
}

function latencyOf(mode: CompletionMode): MeasureTool {
  return async ({ bytes }, { seconds, host, placement }) => {
    const { p50, p99, p999 } = await sendLatency(mode, bytes, seconds, host, placement);
    return { p50Micros: p50 / 1000, p99Micros: p99 / 1000, p999Micros: p999 / 1000 };
  };
}

function bandwidthOf(tool: BandwidthTool): MeasureTool {
  return async (scenario, { seconds, host, placement }) => {
    const report = await bandwidth(tool, scenario, seconds, host, placement);
    const measured: Measures = { ...report };
    return Object.fromEntries(scenario.metrics.map((metric) => [metric, measured[metric]]));
  };
}
