import type { Placement } from '../run/placement.js';
import { type BandwidthReport, parseBandwidthReport } from './bandwidth-report.js';
import { runTool } from './tool-run.js';

/** Messages one way in C: `ib_send_bw` pushes them, `ib_read_bw` reads them from the other side. */
export type BandwidthTool = 'ib_send_bw' | 'ib_read_bw';

/** Before and after the time that it measures, in seconds. */
const MARGIN_SECONDS = 1;

/** @param inFlight work requests that are posted at any time */
export async function bandwidth(
  tool: BandwidthTool,
  { bytes, inFlight }: { readonly bytes: number; readonly inFlight: number },
  seconds: number,
  host: string,
  placement: Placement,
): Promise<BandwidthReport> {
  // The tool knows whole seconds only, and counts the margins among them.
  const duration = Math.ceil(seconds) + 2 * MARGIN_SECONDS;
  const options = ['-s', bytes, '-t', inFlight, '-D', duration, '-f', MARGIN_SECONDS].map(String);
  // One completion for several messages, as verbmq asks for. The receiving side must not run out of buffers.
  if (tool === 'ib_send_bw')
    options.push('-Q', String(Math.max(1, inFlight / 4)), '-r', String(2 * inFlight));
  return parseBandwidthReport(tool, await runTool({ tool, options, host, placement }));
}
