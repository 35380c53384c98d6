import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runProcess } from '../../scripts/lib/run-process.mjs';
import { makeTree } from './fixture.js';

const node = process.execPath;
const timeLimitMs = 30_000;

/** A program that starts a sleeper of an hour, says its process id, and then does as told. */
const withChild = (then: string): string[] => [
  '--input-type=module',
  '-e',
  `import { spawn } from 'node:child_process';
   const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 3600000)'], { stdio: 'inherit' });
   process.stdout.write(child.pid + '\\n', () => { ${then} });`,
];

/** Whether a process runs; a dead one that nobody has collected does not. */
const runs = (pid: number): boolean =>
  existsSync(`/proc/${pid}/stat`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));

describe('runProcess', () => {
  it('tells the status and the output, and writes the log', async () => {
    const log = join(makeTree({}), 'log');
    const lines: string[] = [];
    const result = await runProcess(node, ['-e', 'console.log("a\\nb"); process.exitCode = 3'], {
      timeLimitMs,
      log,
      onLine: (line) => lines.push(line),
    });
    expect(result).toMatchObject({ status: 3, failure: 'exit status 3', timedOut: false, output: 'a\nb\n' });
    expect(lines).toEqual(['a', 'b']);
    expect(readFileSync(log, 'utf8')).toBe('a\nb\n');
  });

  it('has no failure when all went well', async () => {
    expect(await runProcess(node, ['-e', '0'], { timeLimitMs })).toMatchObject({
      status: 0,
      failure: undefined,
    });
  });

  it('tells that a command does not exist', async () => {
    const result = await runProcess('/no/such/command', [], { timeLimitMs });
    expect(result.failure).toContain('/no/such/command did not start');
  });

  it('ends what a command has left behind', async () => {
    const result = await runProcess(node, withChild('process.exit(0)'), { timeLimitMs });
    expect(result.failure).toBeUndefined();
    // The kernel closes the files of a killed process a moment before it is gone.
    await expect.poll(() => runs(Number(result.output))).toBe(false);
  });

  it('ends a command with its children when the time is over', async () => {
    const result = await runProcess(node, withChild(''), { timeLimitMs: 3_000 });
    expect(result).toMatchObject({ timedOut: true, failure: 'the time limit of 3 s was over' });
    // The kernel closes the files of a killed process a moment before it is gone.
    await expect.poll(() => runs(Number(result.output))).toBe(false);
  });
});
