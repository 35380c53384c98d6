import { CONTESTANTS, type Metric, SCENARIOS, type ScenarioName } from '../scenarios.js';
import type { BenchReport, Result } from './results.js';
import type { Style } from './style.js';
import { alignTable } from './table.js';
import { formatNumber } from './units.js';

const HEADINGS: Record<Metric, string> = {
  p50Micros: 'p50 µs',
  p99Micros: 'p99 µs',
  p999Micros: 'p99.9 µs',
  messagesPerSecond: 'messages/s',
  megabytesPerSecond: 'MB/s',
  cpuMicrosPerMessage: 'CPU µs/message',
  clientCpuMicrosPerMessage: 'of the client',
  serverCpuMicrosPerMessage: 'of the server',
  connectionKib: 'KiB/connection',
};

/** The whole report for people. */
export function renderReport(report: BenchReport, style: Style): string {
  const { environment, options } = report;
  const lines = [
    `${environment.cpu}, ${environment.cores} cores, ${environment.system}, Node ${environment.node}`,
    `medians of ${options.rounds} rounds of ${options.seconds} s; ± is half the spread of the rounds' middle half`,
  ];
  for (const label of new Set(report.results.map(({ scenario }) => scenario))) {
    const results = report.results.filter(({ scenario }) => scenario === label);
    const title = SCENARIOS[label.split(' ')[0] as ScenarioName].title;
    lines.push('', style('bold', `${label}: ${title}`), ...scenarioTable(results));
  }
  if (report.ratios.length > 0) lines.push('', style('bold', 'ratios'), ...ratioTable(report, style));
  for (const { name, reason } of report.absentRatios) lines.push(`${name}: absent; ${reason}`);
  for (const [reason, names] of unavailableByReason(report)) {
    lines.push(`${style('yellow', `not here: ${names.join(', ')}`)}: ${reason}`);
  }
  for (const { contestant, scenario, placement, round, error } of report.failures) {
    lines.push(
      `${style('red', 'failed')}: ${contestant} in ${scenario} (${placement}), round ${round}: ${error}`,
    );
  }
  lines.push(
    '',
    `${report.repeated} measurements were made again because something else took CPU time or the machine was slower than before; ` +
      `${report.disturbed} were disturbed still the last time.`,
  );
  return lines.join('\n');
}

function unavailableByReason({ unavailable }: BenchReport): Map<string, string[]> {
  const names = new Map<string, string[]>();
  for (const { contestant, placement, reason, remedy } of unavailable) {
    const why = remedy === undefined ? reason : `${reason}\n  remedy: ${remedy}`;
    names.set(why, [...(names.get(why) ?? []), contestant ?? placement ?? '']);
  }
  return names;
}

function scenarioTable(results: readonly Result[]): string[] {
  const figures = ({ value, spread }: Result): string => `${formatNumber(value)} ±${percent(spread / 2)}`;
  const { header, rows } = scenarioCells(results, figures);
  return alignTable([header, ...rows]);
}

/** The figures of one scenario: a row for each contestant that has any, a column for each metric. */
export function scenarioCells(
  results: readonly Result[],
  figures: (result: Result) => string,
): { header: string[]; rows: [name: string, ...cells: string[]][] } {
  const metrics = [...new Set(results.map(({ metric }) => metric))];
  const rows = Object.keys(CONTESTANTS).flatMap((name): [string, ...string[]][] => {
    const own = results.filter(({ contestant }) => contestant === name);
    if (own.length === 0) return [];
    const cells = metrics.map((metric) => {
      const result = own.find((candidate) => candidate.metric === metric);
      return result === undefined ? '' : figures(result);
    });
    return [[name, ...cells]];
  });
  return { header: ['', ...metrics.map((metric) => HEADINGS[metric])], rows };
}

function ratioTable({ ratios }: BenchReport, style: Style): string[] {
  const rows = ratios.map((ratio) => [
    ratio.name,
    ratio.value.toFixed(2),
    `±${percent(ratio.spread / 2)}`,
    `${ratio.direction === 'at-most' ? '≤' : '≥'} ${ratio.goal}`,
    ratio.holds ? 'holds' : 'does not hold',
    Object.entries(ratio.elsewhere)
      .map(([placement, value]) => `${placement} ${value.toFixed(2)}`)
      .join(', '),
  ]);
  const [header = '', ...lines] = alignTable([['', 'value', '', 'goal', '', 'elsewhere'], ...rows]);
  const coloured = lines.map((line, index) => (ratios[index]?.holds === true ? line : style('red', line)));
  return [header, ...coloured];
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(0)}%`;
}
