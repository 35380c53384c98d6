import { describe, expect, it } from 'vitest';
import { report } from '../../scripts/test/report.mjs';
import { count, failed, outcomesOfRun, passed, skipped, totalsLine } from '../../scripts/test/results.mjs';

const recording = (...records: object[]): string =>
  records.map((record) => `${JSON.stringify(record)}\n`).join('');
const good = { type: 'test', name: 'a', state: 'passed' };
const end = { type: 'end', reason: 'passed' };

describe('the outcomes of a run', () => {
  it('are those that were recorded', () => {
    const text = recording(
      { type: 'begin' },
      good,
      { type: 'test', name: 'b', state: 'skipped', reason: 'no device' },
      { type: 'test', name: 'c', state: 'failed', details: 'stack' },
      end,
    );
    expect(outcomesOfRun('run', text, 'exit status 1', '')).toEqual([
      { name: 'run: a', state: 'passed' },
      { name: 'run: b', state: 'skipped', reason: 'no device' },
      { name: 'run: c', state: 'failed', details: 'stack' },
    ]);
  });

  it('hold a failure when the run died, and keep what was done before', () => {
    const cut = `${recording({ type: 'begin' }, good)}{"type":"te`;
    const outcomes = outcomesOfRun('run', cut, 'ended by SIGSEGV', 'last words\n');
    expect(outcomes).toEqual([
      { name: 'run: a', state: 'passed' },
      failed('run', 'the run did not come to its end (ended by SIGSEGV):\nlast words'),
    ]);
  });

  it('are a failure when nothing was recorded at all', () => {
    expect(count(outcomesOfRun('run', undefined, undefined, ''))).toEqual({
      passed: 0,
      failed: 1,
      skipped: 0,
    });
  });

  it('are a failure when no test was found', () => {
    expect(count(outcomesOfRun('run', recording(end), undefined, '')).failed).toBe(1);
  });

  it('are a failure when every test was skipped', () => {
    const text = recording({ type: 'test', name: 'b', state: 'skipped', reason: 'no device' }, end);
    expect(count(outcomesOfRun('run', text, undefined, ''))).toEqual({ passed: 0, failed: 1, skipped: 1 });
  });

  it('are a failure when only the exit status says so', () => {
    expect(count(outcomesOfRun('run', recording(good, end), 'exit status 1', ''))).toEqual({
      passed: 1,
      failed: 1,
      skipped: 0,
    });
  });

  it('count a test that never finished as failed', () => {
    const text = recording(good, { type: 'test', name: 'b', state: 'pending' }, end);
    expect(count(outcomesOfRun('run', text, 'exit status 1', '')).failed).toBe(1);
  });
});

describe('the report', () => {
  it('ends with the totals, and says why tests were skipped and what failed', () => {
    const text = report([
      { name: 'lint', outcomes: [passed('biome'), failed('files', 'too\nlong')], seconds: 1.25 },
      { name: 'guest', outcomes: [skipped('all', 'no root')], seconds: 0 },
    ]);
    expect(text.split('\n').slice(-5)).toEqual([
      'part   passed  failed  skipped  seconds',
      'lint        1       1        0      1.3',
      'guest       0       0        1      0.0',
      '',
      '1 passed, 1 failed, 1 skipped',
    ]);
    expect(text).toContain('skipped in guest: no root\n  - all\n');
    expect(text).toContain('FAILED in lint: files\n    too\n    long\n');
  });

  it('leaves out what is not skipped', () => {
    expect(totalsLine({ passed: 12, failed: 0, skipped: 0 })).toBe('12 passed, 0 failed');
  });
});
