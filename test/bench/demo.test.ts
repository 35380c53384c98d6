import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { renderDemo } from '../../bench/dist/demo/render.js';
import { DEMO_STEPS, runDemo } from '../../bench/dist/demo/rows.js';
import { Progress } from '../../bench/dist/report/progress.js';
import type { Style } from '../../bench/dist/report/style.js';

const plain: Style = (_format, text) => text;

/** What a progress display writes to a stream that is no terminal. */
function recordProgress() {
  const stream = new PassThrough();
  const progress = new Progress(stream as unknown as NodeJS.WriteStream, DEMO_STEPS);
  return { progress, written: () => String(stream.read() ?? '') };
}

describe('the demo', () => {
  it('measures each transport that is here, and says why another is not', async () => {
    const { progress, written } = recordProgress();
    const results = await runDemo(progress, { warmUpMs: 20, measuredMs: 50 });
    const outcomeOf = (title: string) => results.find((result) => result.title === title)?.outcome;
    for (const title of ['TCP', 'Unix socket', 'auto, on TCP']) {
      const outcome = outcomeOf(title);
      if (outcome?.kind !== 'measured')
        throw new Error(`${title} was not measured: ${JSON.stringify(outcome)}`);
      expect(outcome.p50).toBeGreaterThan(0);
      expect(outcome.p999).toBeGreaterThanOrEqual(outcome.p99);
      expect(outcome.messagesPerSecond).toBeGreaterThan(0);
      expect(outcome.cpuNanosPerMessage).toBeGreaterThan(0);
    }
    // With a device there is a row for each mode, without one the reason in RDMA's only row.
    const rdma = outcomeOf('RDMA') ?? outcomeOf('RDMA, adaptive');
    expect(rdma?.kind).toBe(outcomeOf('RDMA') === undefined ? 'measured' : 'unavailable');
    expect(written()).toContain(`[1/${DEMO_STEPS}] TCP: round trips`);
    expect(renderDemo(results, plain)).toMatch(/^TCP +\d/m);
  });
});

describe('renderDemo', () => {
  it('aligns figures, and gives reason and remedy, or the error, instead of them', () => {
    const measured = {
      kind: 'measured',
      p50: 47_210,
      p99: 101_000,
      p999: 1_616_000,
      messagesPerSecond: 190_123,
      cpuNanosPerMessage: 6_210,
    } as const;
    const text = renderDemo(
      [
        { title: 'TCP', outcome: measured },
        { title: 'Unix socket', outcome: { kind: 'failed', error: new Error('no such directory') } },
        { title: 'RDMA', outcome: { kind: 'unavailable', reason: 'there is no device', remedy: 'buy one' } },
      ],
      plain,
    );
    expect(text.split('\n').slice(1, 6)).toEqual([
      'transport      p50     p99     p99.9  messages/s  CPU/message',
      'TCP        47.2 µs  101 µs  1,616 µs     190,123      6.21 µs',
      'Unix socket failed: no such directory',
      'RDMA is not here: there is no device',
      '  remedy: buy one',
    ]);
  });
});
