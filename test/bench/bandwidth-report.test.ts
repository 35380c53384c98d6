import { describe, expect, it } from 'vitest';
import { parseBandwidthReport } from '../../bench/perftest/bandwidth-report.js';

/** What perftest 4.5 prints at the end. */
const reportOf = (row: string, unit = 'MB/sec') =>
  ` #bytes     #iterations    BW peak[${unit}]    BW average[${unit}]   MsgRate[Mpps]\n ${row}\n`;

describe('parseBandwidthReport', () => {
  it('takes the rate of small messages as it is printed', () => {
    const report = reportOf('64         1000             3.55               3.50               0.057319');
    expect(parseBandwidthReport('ib_send_bw', report).messagesPerSecond).toBeCloseTo(57_319, 6);
  });

  it.each(['MB/sec', 'MiB/sec'])('knows that %s are mebibytes', (unit) => {
    const report = reportOf(
      '1048576    412              0.00               100.00             0.000100',
      unit,
    );
    expect(parseBandwidthReport('ib_read_bw', report).megabytesPerSecond).toBeCloseTo(104.8576, 6);
  });

  it('says what the tool said when there is no report', () => {
    const output = 'Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n';
    expect(() => parseBandwidthReport('ib_read_bw', output)).toThrow(
      /ib_read_bw printed no report[\s\S]*Unable/,
    );
  });

  it('does not take nothing for a figure', () => {
    // As it was printed where the tool could not tell the time.
    const report = reportOf('1048576    80               0.00               0.00   \t\t   0.000000');
    expect(() => parseBandwidthReport('ib_read_bw', report)).toThrow(/measured nothing/);
  });

  it('does not take another test for a bandwidth test', () => {
    const output = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n 64 1000 106.81 655.92 159.17\n`;
    expect(() => parseBandwidthReport('ib_send_bw', output)).toThrow(/no BW average/);
  });
});
