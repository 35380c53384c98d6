import { ReportRow } from './report-row.js';

/** What a bandwidth test of perftest measured, on average. */
export interface BandwidthReport {
  /** Millions of bytes. */
  readonly megabytesPerSecond: number;
  readonly messagesPerSecond: number;
}

const MIB = 1024 * 1024;

/**
 * Reads the report of `ib_send_bw` or `ib_read_bw`. Its megabytes are mebibytes, whatever the version calls them (it divides
 * by 0x100000: `print_report_bw` in perftest's src/perftest_parameters.c). The rate has few digits where messages
 * are large, and the bandwidth where they are small, so both are taken as they are printed.
 * @throws Error when there is no report in the text, or the tool measured nothing: no message was complete in its time, or
 *   it could not tell the time.
 */
export function parseBandwidthReport(tool: string, output: string): BandwidthReport {
  const row = new ReportRow(tool, output);
  const unit = output.includes('BW average[MiB/sec]') ? 'MiB/sec' : 'MB/sec';
  const average = row.column(`BW average[${unit}]`);
  if (average === 0) throw new Error(`${tool} measured nothing:\n${output.trim()}`);
  return {
    megabytesPerSecond: (average * MIB) / 1e6,
    messagesPerSecond: row.column('MsgRate[Mpps]') * 1e6,
  };
}
