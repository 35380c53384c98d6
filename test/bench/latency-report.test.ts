import { describe, expect, it } from 'vitest';
import { parseLatencyReport } from '../../bench/perftest/latency-report.js';

/** As perftest 4.5 printed it, for `ib_send_lat -R -F -e -s 64 -n 1000` over Soft-RoCE. */
const REPORT = `---------------------------------------------------------------------------------------
                    Send Latency Test
 Test with events. Using rxe0_comp0
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: ON
 ibv_wr* API     : OFF
 TX depth        : 1
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 1
 Max inline data : 0[B]
 rdma_cm QPs\t : ON
 Data ex. method : rdma_cm
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x001b PSN 0x73a6cc
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:01
 remote address: LID 0000 QPN 0x001c PSN 0xbaf737
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:01
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 64      1000          106.81         655.92       159.17   \t       180.19      \t57.52  \t\t399.27  \t\t655.92 
---------------------------------------------------------------------------------------
`;

describe('parseLatencyReport', () => {
  it('doubles the one-way latencies that the tool prints', () => {
    expect(parseLatencyReport(REPORT)).toEqual({
      iterations: 1000,
      p50: 318_340,
      p99: 798_540,
      p999: 1_311_840,
    });
  });

  it('says what the tool said when there is no report', () => {
    const output = 'Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n';
    expect(() => parseLatencyReport(output)).toThrow(/no report[\s\S]*Unable to perform rdma_client/);
  });

  it('does not take another test for a latency test', () => {
    // The columns of ib_send_bw.
    const output = ` #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 64         1000             3.55               3.50               0.057319\n`;
    expect(() => parseLatencyReport(output)).toThrow(/no t_typical/);
  });
});
