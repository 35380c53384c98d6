import { describe, expect, it } from 'vitest';
import { computeRatio, isAbsent, RATIOS, type Ratio, type RatioDefinition } from '../../bench/ratios.js';
import type { Measures, Sample } from '../../bench/scenarios.js';

const roundTrip: RatioDefinition = {
  name: 'example',
  of: 'tcp',
  to: ['net'],
  scenario: 'rtt-64B',
  metric: 'p50Micros',
  placement: 'one-core',
  pick: 'best',
  goal: 1.05,
  direction: 'at-most',
  where: 'machine',
};
const rate: RatioDefinition = {
  ...roundTrip,
  scenario: 'rate-64B',
  metric: 'messagesPerSecond',
  pick: 'median',
  goal: 2,
  direction: 'at-least',
};

function samplesOf(
  definition: RatioDefinition,
  contestant: Sample['contestant'],
  values: readonly number[],
  placement: Sample['placement'] = definition.placement,
): Sample[] {
  return values.map((value, index) => ({
    scenario: definition.scenario,
    placement,
    contestant,
    round: index + 1,
    measures: { [definition.metric]: value } as Measures,
  }));
}

function ratioOf(definition: RatioDefinition, samples: readonly Sample[]): Ratio {
  const ratio = computeRatio(definition, samples);
  if (isAbsent(ratio)) throw new Error(ratio.reason);
  return ratio;
}

describe('computeRatio', () => {
  it('divides the best round trips, which are the shortest', () => {
    const samples = [
      ...samplesOf(roundTrip, 'tcp', [50, 42, 60]),
      ...samplesOf(roundTrip, 'net', [40, 55, 44]),
    ];
    expect(ratioOf(roundTrip, samples)).toMatchObject({ value: 42 / 40, holds: true });
  });

  it('divides the medians of rates', () => {
    const samples = [...samplesOf(rate, 'tcp', [190, 150, 900]), ...samplesOf(rate, 'net', [100, 1, 120])];
    expect(ratioOf(rate, samples)).toMatchObject({
      value: 1.9,
      holds: false,
      goal: 2,
      direction: 'at-least',
    });
  });

  it('holds at the goal itself', () => {
    expect(ratioOf(rate, [...samplesOf(rate, 'tcp', [200]), ...samplesOf(rate, 'net', [100])]).holds).toBe(
      true,
    );
    const samples = [...samplesOf(roundTrip, 'tcp', [105]), ...samplesOf(roundTrip, 'net', [100])];
    expect(ratioOf(roundTrip, samples).holds).toBe(true);
  });

  it('takes the spread from the ratios within each round', () => {
    // Both are twice as slow in the second round: what divides them stays the same.
    const steady = [...samplesOf(rate, 'tcp', [200, 100, 200]), ...samplesOf(rate, 'net', [100, 50, 100])];
    expect(ratioOf(rate, steady).spread).toBe(0);
    const unsteady = [...samplesOf(rate, 'tcp', [200, 100, 200]), ...samplesOf(rate, 'net', [100, 100, 100])];
    expect(ratioOf(rate, unsteady).spread).toBeGreaterThan(0);
  });

  it('mixes neither scenarios nor placements, but tells of the others', () => {
    const samples = [
      ...samplesOf(rate, 'tcp', [300]),
      ...samplesOf(rate, 'net', [100]),
      ...samplesOf(rate, 'tcp', [500], 'free'),
      ...samplesOf(rate, 'net', [100], 'free'),
      ...samplesOf(roundTrip, 'tcp', [1]),
    ];
    expect(ratioOf(rate, samples)).toMatchObject({ value: 3, elsewhere: { free: 5 } });
  });

  it('is absent, with the reason, when a side was not measured', () => {
    const samples = samplesOf(rate, 'tcp', [300]);
    expect(computeRatio(rate, samples)).toEqual({
      name: 'example',
      reason: 'net was not measured in rate-64B, one-core',
    });
    expect(computeRatio(rate, samples, new Map([['net', { reason: 'it was left at home' }]]))).toEqual({
      name: 'example',
      reason: 'it was left at home',
    });
  });
});

describe('computeRatio of several to divide by', () => {
  const peers: RatioDefinition = { ...rate, of: 'rpc-tcp', to: ['ws', 'nats', 'grpc'], goal: 1.5 };
  const ours = samplesOf(peers, 'rpc-tcp', [300, 320, 310]);

  it('takes the best in what is measured, and names it', () => {
    const samples = [
      ...ours,
      ...samplesOf(peers, 'grpc', [900, 20, 30]),
      ...samplesOf(peers, 'ws', [150, 155, 160]),
    ];
    const ratio = ratioOf(peers, samples);
    expect(ratio).toMatchObject({ value: 2, holds: true });
    expect(ratio.basis).toContain('rpc-tcp ÷ ws');
    const roundTrips = { ...peers, metric: 'p50Micros', scenario: 'call-64B', pick: 'best' } as const;
    const slower = [...samplesOf(roundTrips, 'rpc-tcp', [30]), ...samplesOf(roundTrips, 'ws', [20])];
    const all = [...slower, ...samplesOf(roundTrips, 'nats', [25])];
    expect(ratioOf({ ...roundTrips, goal: 1, direction: 'at-most' }, all)).toMatchObject({
      value: 1.5,
      holds: false,
    });
  });

  it('is absent when none was measured', () => {
    expect(isAbsent(computeRatio(peers, ours))).toBe(true);
  });

  it('is the figure itself when there are none', () => {
    const memory: RatioDefinition = {
      ...rate,
      name: 'memory',
      of: 'tcp-1000',
      to: [],
      metric: 'connectionKib',
      goal: 64,
      direction: 'at-most',
    };
    const samples = samplesOf(memory, 'tcp-1000', [20, 30, 40]);
    expect(ratioOf(memory, samples)).toMatchObject({ value: 30, holds: true, spread: 1 / 3 });
  });
});

describe('RATIOS', () => {
  it('are the goals of the project', () => {
    const goals = RATIOS.map(({ name, direction, goal }) => `${name} ${direction} ${goal}`);
    expect(goals).toEqual([
      'tcp_rtt_vs_net at-most 1.05',
      'tcp_rate_vs_net at-least 2',
      'tcp_rate_vs_net_gathered at-least 0.8',
      'tcp_large_vs_net at-least 0.9',
      'auto_rtt_vs_tcp at-most 1.1',
      'auto_rate_vs_tcp at-least 0.9',
      'scale_1000_vs_1 at-least 0.8',
      'tcp_connection_kib at-most 64',
      'rpc_rate_vs_best_peer at-least 1.5',
      'rpc_rtt_vs_best_peer at-most 1',
      'rpc_cpu_vs_best_peer at-most 0.7',
      'rdma_adaptive_vs_c_event at-most 0.85',
      'rdma_adaptive_vs_c_poll at-most 3',
      'rdma_event_vs_c_event at-most 1.4',
      'net_vs_rdma_adaptive at-least 4',
      'large_vs_read_bw at-least 0.9',
      'rate_vs_send_bw at-least 0.7',
      'onesided_cpu_vs_tcp at-most 0.1',
      'auto_rdma_rtt_vs_rdma at-most 1.1',
      'rpc_over_rdma_vs_raw at-most 1.4',
    ]);
  });
});
