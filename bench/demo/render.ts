import type { Style } from '../report/style.js';
import { alignTable } from '../report/table.js';
import { formatNanos, formatNumber } from '../report/units.js';
import { type DemoResult, IN_FLIGHT } from './rows.js';

const HEADER = ['transport', 'p50', 'p99', 'p99.9', 'messages/s', 'CPU/message'];

/** The demo's table as text. A transport that is not here, or failed, has its reason in its row. */
export function renderDemo(results: readonly DemoResult[], style: Style): string {
  const [header = '', ...lines] = alignTable([HEADER, ...results.map((result) => cells(result, style))]);
  const footnote = [
    'Echo of 64-byte messages between two processes. Round trips: one message at a time;',
    `messages/s and CPU (of both processes together): ${IN_FLIGHT} messages in flight.`,
  ];
  return ['', style('bold', header), ...lines, '', ...footnote.map((line) => style('dim', line))].join('\n');
}

function cells({ title, outcome }: DemoResult, style: Style): string[] {
  switch (outcome.kind) {
    case 'measured':
      return [
        title,
        formatNanos(outcome.p50),
        formatNanos(outcome.p99),
        formatNanos(outcome.p999),
        formatNumber(outcome.messagesPerSecond),
        formatNanos(outcome.cpuNanosPerMessage),
      ];
    case 'unavailable':
      return [
        `${style('yellow', `${title} is not here`)}: ${outcome.reason}\n  ${style('bold', 'remedy')}: ${outcome.remedy}`,
      ];
    case 'failed':
      return [`${style('red', `${title} failed`)}: ${outcome.error.message}`];
  }
}
