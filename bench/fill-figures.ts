/**
 * Writes what `--json` wrote into a document: `node bench/dist/fill-figures.js docs/performance.md peers=peers.json`; also the
 * `failover.json` of test/auto/failover. See {@link fillFigures} for where it goes.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { type FailoverReport, renderFailover } from './report/failover.js';
import { fillFigures, renderMarkdown } from './report/markdown.js';
import type { BenchReport } from './report/results.js';

const [document = '', ...figures] = process.argv.slice(2);
let text = readFileSync(document, 'utf8');
for (const argument of figures) {
  const [name = '', file = ''] = argument.split('=');
  const report = JSON.parse(readFileSync(file, 'utf8')) as BenchReport | FailoverReport;
  text = fillFigures(text, name, 'pausesMs' in report ? renderFailover(report) : renderMarkdown(report));
}
writeFileSync(document, text);
