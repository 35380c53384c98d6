/**
 * What `npm test` prints when all parts are done.
 */

import { count, totalsLine } from './results.mjs';

/** @typedef {import('./results.mjs').PartResult} PartResult */

/** @param {readonly PartResult[]} parts @returns {string} its last line holds the totals */
export function report(parts) {
  const totals = count(parts.flatMap((part) => part.outcomes));
  return [...skips(parts), ...failures(parts), '', ...table(parts), '', totalsLine(totals)].join('\n');
}

/** @param {readonly PartResult[]} parts */
function table(parts) {
  const rows = [
    ['part', 'passed', 'failed', 'skipped', 'seconds'],
    ...parts.map(({ name, outcomes, seconds }) => {
      const { passed, failed, skipped } = count(outcomes);
      return [name, passed, failed, skipped, seconds.toFixed(1)].map(String);
    }),
  ];
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column])))
      .join('  '),
  );
}

/** Skipped tests, under their reasons. @param {readonly PartResult[]} parts */
function skips(parts) {
  /** @type {Map<string, string[]>} */
  const byReason = new Map();
  for (const { name, outcomes } of parts) {
    for (const outcome of outcomes.filter(({ state }) => state === 'skipped')) {
      const reason = `${name}: ${outcome.reason ?? 'no reason given'}`;
      // The reason stands above already.
      const title = outcome.name.replace(/ \(skipped: .*\)$/, '');
      byReason.set(reason, [...(byReason.get(reason) ?? []), title]);
    }
  }
  return [...byReason].flatMap(([reason, names]) => [
    '',
    `skipped in ${reason}`,
    ...names.map((name) => `  - ${name}`),
  ]);
}

/** A difference of long arrays has thousands of lines. */
const detailLines = 60;

/** @param {string[]} lines */
const shortened = (lines) =>
  lines.length <= detailLines
    ? lines
    : [...lines.slice(0, detailLines), `… and ${lines.length - detailLines} lines more, see .cache/test`];

/** @param {readonly PartResult[]} parts */
function failures(parts) {
  return parts.flatMap(({ name: part, outcomes }) =>
    outcomes
      .filter(({ state }) => state === 'failed')
      .flatMap(({ name, details }) => [
        '',
        `FAILED in ${part}: ${name}`,
        ...shortened((details ?? 'no details').split('\n')).map((line) => `    ${line}`),
      ]),
  );
}
