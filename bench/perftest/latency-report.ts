import { ReportRow } from './report-row.js';

/** What a latency test of perftest measured. Round trips, in nanoseconds. */
export interface LatencyReport {
  readonly iterations: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}

/**
 * Reads the report of `ib_send_lat`. It measures round trips and prints half of each as the one-way latency, in
 * microseconds (perftest's README: "the latency benchmarks measure round-trip time but report half of that"); here
 * they are round trips again. `t_typical` is the median.
 * @throws Error when there is no report in the text.
 */
export function parseLatencyReport(output: string): LatencyReport {
  const row = new ReportRow('ib_send_lat', output);
  const roundTrip = (name: string): number => Math.round(row.column(name) * 2 * 1000);
  return {
    iterations: row.column('#iterations'),
    p50: roundTrip('t_typical[usec]'),
    p99: roundTrip('99% percentile[usec]'),
    p999: roundTrip('99.9% percentile[usec]'),
  };
}
