import { describe, expect, it } from 'vitest';
import { parseBenchOptions } from '../../bench/options.js';
import { RATIOS } from '../../bench/ratios.js';
import { renderFailover } from '../../bench/report/failover.js';
import { fillFigures, renderMarkdown } from '../../bench/report/markdown.js';
import { type BenchReport, summarise } from '../../bench/report/results.js';
import { alignTable } from '../../bench/report/table.js';
import { formatNanos, formatNumber } from '../../bench/report/units.js';
import type { Sample } from '../../bench/scenarios.js';

describe('summarise', () => {
  it('takes medians, the best and the rounds, apart by scenario, placement, contestant and metric', () => {
    const sample = (round: number, placement: Sample['placement'], p50Micros: number): Sample => ({
      scenario: 'rtt-64B',
      placement,
      contestant: 'net',
      round,
      measures: { p50Micros, cpuMicrosPerMessage: 7 },
    });
    const results = summarise([sample(1, 'free', 30), sample(2, 'free', 20), sample(1, 'one-core', 10)]);
    expect(results).toEqual([
      expect.objectContaining({
        scenario: 'rtt-64B',
        contestant: 'net',
        metric: 'p50Micros',
        value: 25,
        best: 20,
      }),
      expect.objectContaining({
        scenario: 'rtt-64B',
        metric: 'cpuMicrosPerMessage',
        value: 7,
        rounds: [7, 7],
      }),
      expect.objectContaining({ scenario: 'rtt-64B one-core', metric: 'p50Micros', value: 10 }),
      expect.objectContaining({ scenario: 'rtt-64B one-core', metric: 'cpuMicrosPerMessage', value: 7 }),
    ]);
  });
});

describe('the tables of documents', () => {
  const report = {
    environment: { cpu: 'a processor', cores: 2, system: 'Linux', node: 'v20' },
    options: { rounds: 3, seconds: 1 },
    results: summarise([
      {
        scenario: 'calls-64B',
        placement: 'one-core',
        contestant: 'ws',
        round: 1,
        measures: { messagesPerSecond: 64_321 },
      },
    ]),
    ratios: [
      {
        name: 'rpc_rate_vs_best_peer',
        value: 2.345,
        goal: 1.5,
        direction: 'at-least',
        holds: true,
        basis: 'rpc-tcp ÷ ws',
        spread: 0.1,
        elsewhere: {},
      },
    ],
    repeated: 4,
    disturbed: 0,
  } as unknown as BenchReport;

  it('hold ratios with their goals, and medians', () => {
    const text = renderMarkdown(report);
    expect(text).toContain('| `rpc_rate_vs_best_peer` | 2.35 ±5% | at least 1.5 | holds | rpc-tcp ÷ ws |');
    expect(text).toContain('`calls-64B`, one-core: calls with 64 bytes each way, 64 in flight');
    expect(text).toContain('| `ws` | 64,321 |');
  });

  it('hold pauses by what failed, and then those of other moments', () => {
    const pauses = (...all: number[]) => ({
      count: all.length,
      p50: all[0] as number,
      max: all.at(-1) as number,
      all,
    });
    const text = renderFailover({
      environment: report.environment,
      seed: 7,
      rounds: 2,
      fastTimeoutMs: 4000,
      windowBytes: 2_900_000,
      faults: { 'a cable': 2, 'a device': 2 },
      received: [
        { messages: 1000, bytes: 2e6, keptBytes: 3e6 },
        { messages: 500, bytes: 1e6, keptBytes: 1e6 },
      ],
      pausesMs: { 'a cable': pauses(9, 1234), 'nothing fails': pauses(1) },
    });
    expect(text).toContain('4 faults in 2 rounds, seed 7. 1,500 messages of together 3.00 MB came');
    expect(text).toContain(
      'At most 3,000,000 bytes were kept by a host, with `windowBytes` 2,900,000; `fastTimeoutMs` was 4,000.',
    );
    expect(text.split('\n').slice(-3)).toEqual([
      '| a cable | 2 | 2 | 9 | 1,234 |',
      '| a device | 2 | 0 |  |  |',
      '| nothing fails |  | 1 | 1 | 1 |',
    ]);
  });

  it('replace those that stand in their place, and nothing else', () => {
    const document =
      'before\n<!-- figures: a -->\nold\n<!-- end -->\nafter\n<!-- figures: b -->\n\n<!-- end -->\n';
    const filled = fillFigures(document, 'a', 'new $1');
    expect(filled).toBe(document.replace('old', '\nnew $$1\n'));
    expect(fillFigures(filled, 'a', 'newer')).toBe(document.replace('old', '\nnewer\n'));
    expect(() => fillFigures(document, 'c', '')).toThrow('no place for the figures c');
  });
});

describe('alignTable', () => {
  it('aligns the first column left, the others right, and leaves rows of one cell alone', () => {
    expect(alignTable([['', 'p50'], ['TCP', '52.1'], ['RDMA is not here'], ['Unix socket', '7']])).toEqual([
      '              p50',
      'TCP          52.1',
      'RDMA is not here',
      'Unix socket     7',
    ]);
  });
});

describe('units', () => {
  it('gives three significant digits', () => {
    expect([1.234, 12.34, 123.4, 1234.5].map(formatNumber)).toEqual(['1.23', '12.3', '123', '1,235']);
    expect(formatNanos(47_210)).toBe('47.2 µs');
  });
});

describe('parseBenchOptions', () => {
  it('sorts the names of --only by their kind', () => {
    const options = parseBenchOptions(['--only', 'tcp,one-core,net,rtt-64B']);
    expect(options.scenarios).toEqual(['rtt-64B']);
    expect(options.placements).toEqual(['one-core']);
    expect(options.contestants).toEqual(['net', 'tcp']);
  });

  it('means all of a kind that is not named', () => {
    const options = parseBenchOptions(['--only=unix']);
    expect(options.scenarios).toEqual([
      'rtt-64B',
      'rate-64B',
      'large-1MiB',
      'scale-64B',
      'push-64B',
      'push-1MiB',
      'read-64KiB',
    ]);
    expect(options.placements).toBeUndefined();
  });

  it('has scenarios of its own for the peers', () => {
    expect(parseBenchOptions(['--peers']).scenarios).toEqual([
      'call-64B',
      'call-4KiB',
      'calls-64B',
      'calls-4KiB',
      'calls-1MiB',
    ]);
    expect(() => parseBenchOptions(['--only', 'calls-64B'])).toThrow('there is no calls-64B');
  });

  it('measures in the guest what its goals need, and everything when something is named', () => {
    const guest = parseBenchOptions(['--guest']);
    for (const { name, scenario, of, to } of RATIOS.filter(({ where }) => where === 'guest')) {
      expect(guest.scenarios, name).toContain(scenario);
      expect(guest.contestants, name).toEqual(expect.arrayContaining([of, ...to]));
    }
    expect(guest.scenarios).not.toContain('scale-64B');
    expect(parseBenchOptions(['--guest', '--only', 'tcp']).scenarios).toContain('scale-64B');
    expect(parseBenchOptions(['--guest', '--only', 'rate-64B']).contestants).toContain('unix');
  });

  it.each([
    [['--peers', '--guest'], '--peers is for the machine itself'],
    [['--rounds', '0'], '--rounds needs a positive number'],
    [['--rounds', '1.5'], '--rounds needs a positive number'],
    [['--seconds', 'few'], '--seconds needs a positive number'],
    [['--only', 'udp'], 'there is no udp'],
    [['--fast'], "Unknown option '--fast'"],
  ])('refuses %j', (args, message) => {
    expect(() => parseBenchOptions(args)).toThrow(message);
  });
});
