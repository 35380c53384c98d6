import { SCENARIOS, type ScenarioName } from '../scenarios.js';
import { percent, scenarioCells } from './render.js';
import type { BenchReport, Result } from './results.js';
import { formatNumber } from './units.js';

/** A report as the tables of docs/performance.md: the ratios, then the medians of each scenario. */
export function renderMarkdown(report: BenchReport): string {
  const { environment, options, repeated, disturbed } = report;
  const lines = [
    `${environment.cpu}, ${environment.cores} cores, ${environment.system}, Node ${environment.node}; medians of ` +
      `${options.rounds} rounds of ${options.seconds} s. ${repeated} measurements were made again, ${disturbed} stayed disturbed.`,
    '',
    ...table(
      ['ratio', 'value', 'goal', '', 'what was divided'],
      report.ratios.map(({ name, value, spread, direction, goal, holds, basis }) => [
        `\`${name}\``,
        `${value.toFixed(2)} ±${percent(spread / 2)}`,
        `${direction.replace('-', ' ')} ${goal}`,
        holds ? 'holds' : 'does not hold',
        basis,
      ]),
    ),
  ];
  for (const label of new Set(report.results.map(({ scenario }) => scenario))) {
    const results = report.results.filter(({ scenario }) => scenario === label);
    const [name = '', placement] = label.split(' ');
    const { title } = SCENARIOS[name as ScenarioName];
    lines.push('', `\`${name}\`${placement === undefined ? '' : `, ${placement}`}: ${title}`, '');
    lines.push(...scenarioTable(results));
  }
  return lines.join('\n');
}

function scenarioTable(results: readonly Result[]): string[] {
  const { header, rows } = scenarioCells(results, ({ value }) => formatNumber(value));
  return table(
    header,
    rows.map(([name, ...cells]) => [`\`${name}\``, ...cells]),
  );
}

/** A table of Markdown. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map(() => '---')), ...rows.map(line)];
}

/**
 * Puts `markdown` where the document says `<!-- figures: NAME -->`, in place of what stands there up to `<!-- end -->`.
 * @throws Error when the document has no such place
 */
export function fillFigures(document: string, name: string, markdown: string): string {
  const place = new RegExp(`(<!-- figures: ${name} -->\n)[\\s\\S]*?(\n<!-- end -->)`);
  if (!place.test(document)) throw new Error(`the document has no place for the figures ${name}`);
  return document.replace(place, (_, begin: string, end: string) => `${begin}\n${markdown}\n${end}`);
}
