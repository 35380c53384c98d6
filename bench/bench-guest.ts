/**
 * `npm run bench:guest`: the benchmark in a virtual machine with an RDMA device in software (test/vm/README.md). Takes
 * the options of `npm run bench`; the files come back to this machine.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BENCH_USAGE, parseBenchOptions, runCommand, wantsHelp } from './options.js';
import type { BenchReport } from './report/results.js';
import { disturbanceBetween, readMachineTimes } from './run/machine-load.js';

const GUEST = fileURLToPath(new URL('../../test/vm/guest.mjs', import.meta.url));
const BENCH = fileURLToPath(new URL('./bench.js', import.meta.url));
const TIME_LIMIT_SECONDS = 5400;

/** Runs the benchmark in the guest. @returns its exit status */
async function runInGuest(args: readonly string[], out: string): Promise<number> {
  // The last --json and --profile count: in the guest both lie in the directory that comes back.
  const command = [
    process.execPath,
    BENCH,
    ...args,
    '--guest',
    '--json',
    'bench.json',
    '--profile',
    'profile',
  ];
  if (!args.some((arg) => /^--profile(=|$)/.test(arg))) command.splice(-2);
  const guestOptions = ['--driver', 'rxe', '--timeout', String(TIME_LIMIT_SECONDS), '--out', out];
  const guest = spawn(process.execPath, [GUEST, ...guestOptions, '--', ...command], { stdio: 'inherit' });
  const onSignal = (signal: NodeJS.Signals) => guest.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal);
  const [status] = await once(guest, 'close');
  return status ?? 1;
}

async function main(args: readonly string[]): Promise<void> {
  if (wantsHelp(args)) {
    console.log(BENCH_USAGE);
    return;
  }
  const { json, profile } = parseBenchOptions([...args, '--guest']);
  const out = mkdtempSync(join(tmpdir(), 'verbmq-bench-'));
  try {
    const before = readMachineTimes();
    process.exitCode = await runInGuest(args, out);
    const { stolen } = disturbanceBetween(before, readMachineTimes(), undefined);
    const file = join(out, 'bench.json');
    if (!existsSync(file)) return;
    console.log(`CPU time stolen from this machine meanwhile: ${(stolen * 100).toFixed(1)}%`);
    const report = JSON.parse(readFileSync(file, 'utf8')) as BenchReport;
    // The guest cannot see what is stolen from the machine that it runs on.
    const full = { ...report, environment: { ...report.environment, stolenFromMachine: stolen } };
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(full, undefined, 2)}\n`);
    if (profile !== undefined) cpSync(join(out, 'profile'), profile, { recursive: true });
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

await runCommand(main);
