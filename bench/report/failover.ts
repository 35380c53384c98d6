import type { Environment } from '../environment.js';
import { table } from './markdown.js';
import { formatNumber } from './units.js';

/** What `test/auto/failover` writes: everything that failed between two hosts, and how long no message came. */
export interface FailoverReport {
  readonly environment: Environment;
  readonly seed: number;
  readonly rounds: number;
  /** After so long silence on RDMA is found. */
  readonly fastTimeoutMs: number;
  readonly windowBytes: number;
  /** How often each thing failed. */
  readonly faults: Readonly<Record<string, number>>;
  /** What each host received, and the most that it kept for repetition. */
  readonly received: readonly {
    readonly messages: number;
    readonly bytes: number;
    readonly keptBytes: number;
  }[];
  /** By what failed, and also while nothing did, and while one thing failed before another was over. */
  readonly pausesMs: Readonly<Record<string, Pauses>>;
}

/** In whole milliseconds. */
export interface Pauses {
  readonly count: number;
  readonly p50: number;
  readonly max: number;
  readonly all: readonly number[];
}

/** Such a report as the table of docs/performance.md. */
export function renderFailover(report: FailoverReport): string {
  const { environment, rounds, seed, faults, received, pausesMs } = report;
  const count = Object.values(faults).reduce((sum, times) => sum + times, 0);
  const sum = (of: 'messages' | 'bytes'): number => received.reduce((total, host) => total + host[of], 0);
  const kept = Math.max(...received.map(({ keptBytes }) => keptBytes));
  const rest = Object.keys(pausesMs).filter((kind) => !(kind in faults));
  return [
    `${environment.cpu}, ${environment.cores} cores, ${environment.system}, Node ${environment.node}; ${count} faults in ` +
      `${rounds} rounds, seed ${seed}. ${sum('messages').toLocaleString('en-US')} messages of together ` +
      `${formatNumber(sum('bytes') / 1e6)} MB came, each once and in order. At most ${kept.toLocaleString('en-US')} bytes were kept by a host, ` +
      `with \`windowBytes\` ${report.windowBytes.toLocaleString('en-US')}; \`fastTimeoutMs\` was ${report.fastTimeoutMs.toLocaleString('en-US')}.`,
    '',
    ...table(
      ['what fails', 'times', 'pauses measured', 'p50 ms', 'max ms'],
      [...Object.keys(faults), ...rest].map((kind) => {
        const pauses = pausesMs[kind];
        return [
          kind,
          `${faults[kind] ?? ''}`,
          `${pauses?.count ?? 0}`,
          ...(pauses === undefined
            ? ['', '']
            : [pauses.p50, pauses.max].map((ms) => ms.toLocaleString('en-US'))),
        ];
      }),
    ),
  ].join('\n');
}
