/**
 * Runs of vitest, on this machine and in the guest.
 */

import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, tools } from '../lib/paths.mjs';
import { failed, lastLines, outcomesOfRun } from './results.mjs';
import { sanitizerEnvironment, sanitizerOutcomes } from './sanitizer.mjs';

/**
 * @typedef {import('./results.mjs').Outcome} Outcome
 * @typedef {import('./context.mjs').PartContext} PartContext
 *
 * @typedef {object} VitestRun
 * @property {string} name
 * @property {string[]} args of `vitest run`
 * @property {string} [node] the Node to run; default: this one
 * @property {Record<string, string>} [env]
 */

/** @param {VitestRun} run */
const vitestArgs = ({ args }) => [
  tools.vitest,
  'run',
  ...args,
  '--reporter=default',
  `--reporter=${join(root, 'scripts/test/recorder.mjs')}`,
];

/** @param {string} path @returns {string | undefined} */
const readIfThere = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : undefined);

/**
 * @param {PartContext} context @param {VitestRun} run @param {number} timeLimitMs
 * @returns {Promise<Outcome[]>}
 */
export async function runVitest(context, run, timeLimitMs) {
  const recording = join(mkdtempSync(join(context.directory, 'run-')), 'outcomes.jsonl');
  const { failure, output } = await context.run(run.name, run.node ?? process.execPath, vitestArgs(run), {
    timeLimitMs,
    env: { ...run.env, VERBMQ_TEST_RECORD: recording },
  });
  return outcomesOfRun(run.name, readIfThere(recording), failure, output);
}

/**
 * @typedef {object} GuestSession one boot of the guest
 * @property {string} name
 * @property {'rxe' | 'siw' | 'none'} driver
 * @property {number} [memlockKib] default: no limit
 * @property {VitestRun[]} runs one after the other
 * @property {boolean} [sanitizers] run on the addon that was built with sanitizers, and fail on what they report
 * @property {number} timeLimitMs of all together, from the boot on
 */

/** How long the guest may take to end after its own limit. */
const guestEndingMs = 120_000;

/** @param {string} text @returns {string} a word that a shell reads as exactly this text */
const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Several runs in one boot of the guest: booting takes longer than many a run.
 * @param {PartContext} context @param {GuestSession} session
 * @returns {Promise<Outcome[]>}
 */
export async function runVitestInGuest(context, session) {
  const out = mkdtempSync(join(context.directory, 'guest-'));
  const { failure, output } = await context.run(
    session.name,
    process.execPath,
    [
      join(root, 'test/vm/guest.mjs'),
      ...['--driver', session.driver],
      ...(session.memlockKib === undefined ? [] : ['--memlock', String(session.memlockKib)]),
      ...['--timeout', String(Math.ceil(session.timeLimitMs / 1000))],
      ...['--out', out],
      ...[
        '--',
        'sh',
        '-c',
        session.runs.map((run) => guestCommand(run, session.sanitizers ?? false)).join('\n'),
      ],
    ],
    { timeLimitMs: session.timeLimitMs + guestEndingMs },
  );
  const outcomes = session.runs.flatMap((run) => {
    const status = readIfThere(join(out, `${run.name}.status`))?.trim();
    const runFailure =
      status === '0' ? undefined : `exit status ${status ?? 'unknown'}, guest: ${failure ?? 'fine'}`;
    return outcomesOfRun(run.name, readIfThere(join(out, `${run.name}.jsonl`)), runFailure, output);
  });
  if (failure !== undefined && !outcomes.some(({ state }) => state === 'failed')) {
    outcomes.push(failed(session.name, `the guest: ${failure}\n${lastLines(output)}`));
  }
  return session.sanitizers ? [...outcomes, ...sanitizerOutcomes(out)] : outcomes;
}

/** @param {VitestRun} run @param {boolean} sanitizers */
function guestCommand(run, sanitizers) {
  const environment = Object.entries(run.env ?? {}).map(([name, value]) => `${name}=${quote(value)}`);
  if (sanitizers) {
    environment.push(sanitizerEnvironment());
  }
  return [
    `echo ${quote(`--- ${run.name}`)}`,
    `env VERBMQ_TEST_RECORD="$VERBMQ_GUEST_OUT"/${quote(`${run.name}.jsonl`)} ${environment.join(' ')} \\`,
    `  ${[run.node ?? process.execPath, ...vitestArgs(run)].map(quote).join(' ')}`,
    `echo $? >"$VERBMQ_GUEST_OUT"/${quote(`${run.name}.status`)}`,
  ].join('\n');
}
