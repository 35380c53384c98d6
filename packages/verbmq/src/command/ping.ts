import { performance } from 'node:perf_hooks';
import { AutoConnection, type PathInfo } from '@verbmq/core/auto';
import { connect } from '../transports.js';

export interface PingOptions {
  /** Length of each message in bytes. */
  readonly bytes: number;
  /** How long to measure, after a tenth of it to warm up. */
  readonly seconds: number;
  readonly json: boolean;
}

/** Samples that are kept at most; a run ends when it has so many. */
const MAX_SAMPLES = 5_000_000;

/** Measures round trips, one at a time, to a service that echoes. */
export async function ping(url: string, { bytes, seconds, json }: PingOptions): Promise<number> {
  const payload = new Uint8Array(bytes); // where that is more than there can be, nothing is to be closed
  const connection = await connect(url);
  const samples: number[] = [];
  const start = performance.now();
  const measureFrom = start + seconds * 100;
  const end = measureFrom + seconds * 1000;
  let sentAt = start;
  let changes = 0;
  if (connection instanceof AutoConnection) {
    connection.onPath(() => {
      if (performance.now() >= measureFrom) changes++;
    });
  }
  let path: Taken = { kind: connection.kind };

  const finished = new Promise<void>((resolve, reject) => {
    const next = (): void => {
      sentAt = performance.now();
      connection.send(payload).catch(reject);
    };
    connection.onMessage((message) => {
      const now = performance.now();
      if (message.byteLength !== bytes) {
        reject(
          new Error(
            `the answer has ${message.byteLength} bytes instead of ${bytes}: is this an echo service?`,
          ),
        );
        return;
      }
      if (now >= measureFrom) samples.push(now - sentAt);
      if (now < end && samples.length < MAX_SAMPLES) next();
      else resolve();
    });
    void connection.closed.then(({ error }) => reject(error ?? new Error('the peer closed the connection')));
    next();
  });
  try {
    await finished;
    if (connection instanceof AutoConnection) path = connection.path;
  } finally {
    await connection.close();
  }
  report(url, bytes, path, changes, samples, json);
  return 0;
}

/** Which way the messages took, and why not the fast one. */
type Taken = Pick<PathInfo, 'kind' | 'reason' | 'peerReason'>;

function describePath({ kind, reason, peerReason }: Taken, changes: number): string {
  const why = [reason, peerReason === undefined ? undefined : `the peer says ${peerReason}`].filter(Boolean);
  const moved = changes > 0 ? ', and moved while it was measured' : '';
  return `${kind}${why.length > 0 ? ` (${why.join(', ')})` : ''}${moved}`;
}

function report(
  url: string,
  bytes: number,
  path: Taken,
  changes: number,
  samples: number[],
  json: boolean,
): void {
  const sorted = Float64Array.from(samples).sort();
  const microseconds = (quantile: number): number => {
    const sample = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? Number.NaN;
    return Math.round(sample * 10_000) / 10;
  };
  const result = {
    url,
    path: { ...path, changes },
    bytes,
    roundTrips: sorted.length,
    p50Micros: microseconds(0.5),
    p99Micros: microseconds(0.99),
    p999Micros: microseconds(0.999),
    maxMicros: microseconds(1),
  };
  if (json) {
    process.stdout.write(`${JSON.stringify(result)}\n`);
    return;
  }
  process.stdout.write(
    `${url}: ${result.roundTrips} round trips of ${bytes} B over ${describePath(path, changes)}: p50 ${result.p50Micros} µs, p99 ${result.p99Micros} µs, ` +
      `p99.9 ${result.p999Micros} µs, max ${result.maxMicros} µs\n`,
  );
}
