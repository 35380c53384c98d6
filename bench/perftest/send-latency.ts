import { spawnSync } from 'node:child_process';
import type { Placement } from '../run/placement.js';
import type { Unavailable } from '../unavailable.js';
import { type LatencyReport, parseLatencyReport } from './latency-report.js';
import { runTool } from './tool-run.js';

/** How `ib_send_lat` waits for a completion: `event` sleeps until one comes (`-e`), `poll` keeps asking. */
export type CompletionMode = 'event' | 'poll';

/** Messages a second of measuring time. The tool cannot be bounded by time and print percentiles as well. */
const ITERATIONS_A_SECOND = 1000;

/** The round trip of a message in C: perftest's `ib_send_lat` against itself. */
export async function sendLatency(
  mode: CompletionMode,
  bytes: number,
  seconds: number,
  host: string,
  placement: Placement,
): Promise<LatencyReport> {
  const iterations = Math.max(500, Math.round(seconds * ITERATIONS_A_SECOND));
  const options = ['-s', String(bytes), '-n', String(iterations), ...(mode === 'event' ? ['-e'] : [])];
  return parseLatencyReport(await runTool({ tool: 'ib_send_lat', options, host, placement }));
}

/** Why perftest cannot be run here, or `undefined`. */
export function perftestProblem(): Unavailable | undefined {
  const { error } = spawnSync('ib_send_lat', ['--version'], { stdio: 'ignore' });
  if (error === undefined) return undefined;
  return { reason: 'ib_send_lat is not installed', remedy: 'install the package perftest' };
}
