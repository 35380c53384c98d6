/**
 * Runs of vitest, on this machine and in the guest.
 */

import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, tools } from '../lib/paths.mjs';
import { bundlePackages } from './bundled-packages.mjs';
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
 * @property {Record<string, string> | undefined} [env] for the tests
 * @property {boolean} [sanitizers] use the addon that was built with sanitizers, and fail on what they report
 */

/** @param {VitestRun} run @param {string} directory for reports @param {string} recording @returns {Record<string, string>} */
const environmentOf = ({ env, sanitizers }, directory, recording) => ({
  ...env,
  VERBMQ_TEST_RECORD: recording,
  ...(sanitizers ? sanitizerEnvironment(directory) : {}),
});

/**
 * What leaves tests out of a run; vitest.config.ts reads it.
 * @param {readonly string[]} tests their files, without extension @returns {Record<string, string>} for its environment
 */
export const leavingOut = (tests) => ({
  VERBMQ_TESTS_LEFT_OUT: tests.map((test) => `${test}.test.ts`).join(','),
});

/** @param {VitestRun} run */
const vitestArgs = ({ args }) => [
  tools.vitest,
  'run',
  ...args,
  // Each test as it ends: what hangs is seen.
  '--reporter=verbose',
  `--reporter=${join(root, 'scripts/test/recorder.mjs')}`,
];

/** @param {string} path @returns {string | undefined} */
const readIfThere = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : undefined);

/**
 * @param {PartContext} context @param {VitestRun} run @param {number} timeLimitMs
 * @returns {Promise<Outcome[]>}
 */
export async function runVitest(context, run, timeLimitMs) {
  const directory = mkdtempSync(join(context.directory, 'run-'));
  const recording = join(directory, 'outcomes.jsonl');
  const { failure, output } = await context.run(run.name, run.node ?? process.execPath, vitestArgs(run), {
    timeLimitMs,
    env: environmentOf(run, directory, recording),
  });
  const outcomes = outcomesOfRun(run.name, readIfThere(recording), failure, output);
  return run.sanitizers ? [...outcomes, ...sanitizerOutcomes(directory)] : outcomes;
}

/**
 * @typedef {object} GuestSession one boot of the guest
 * @property {string} name
 * @property {'rxe' | 'siw' | 'none'} driver
 * @property {1 | 2} [hosts] with 2, everything runs in two guests that a cable joins; default: 1
 * @property {number} [memlockKib] default: no limit
 * @property {boolean} [bundled] the packages in few files, for tests that import them by their names
 * @property {VitestRun[]} runs one after the other
 * @property {number} timeLimitMs of all together, from the boot on
 */

const transformMs = 120_000;

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
  const transformed = await transform(context, session);
  const prepare = session.bundled ? await putBundles(context) : [];
  const { failure, output } = await context.run(
    session.name,
    process.execPath,
    [
      join(root, 'test/vm/guest.mjs'),
      '--quick',
      ...['--driver', session.driver, '--hosts', String(session.hosts ?? 1)],
      ...(session.memlockKib === undefined ? [] : ['--memlock', String(session.memlockKib)]),
      ...['--timeout', String(Math.ceil(session.timeLimitMs / 1000))],
      ...['--out', out],
      ...['--', 'sh', '-c', [...prepare, ...session.runs.map(guestCommand)].join('\n')],
    ],
    { timeLimitMs: session.timeLimitMs + guestEndingMs },
  );
  // The files of two hosts come back apart.
  const hosts = session.hosts === 2 ? ['a', 'b'] : [''];
  const outcomes = hosts.flatMap((host) =>
    session.runs.flatMap((run) => {
      const from = join(out, host);
      const title = host === '' ? run.name : `${run.name} ${host}`;
      const status = readIfThere(join(from, `${run.name}.status`))?.trim();
      const runFailure =
        status === '0' ? undefined : `exit status ${status ?? 'unknown'}, guest: ${failure ?? 'fine'}`;
      return [
        ...outcomesOfRun(title, readIfThere(join(from, `${run.name}.jsonl`)), runFailure, output),
        ...(run.sanitizers ? sanitizerOutcomes(from) : []),
      ];
    }),
  );
  if (failure !== undefined && !outcomes.some(({ state }) => state === 'failed')) {
    outcomes.push(failed(session.name, `the guest: ${failure}\n${lastLines(output)}`));
  }
  return [...transformed, ...outcomes];
}

/**
 * Vitest keeps what it has made of a file, and the guest sees that. Here it takes seconds for all of them, in there a second for each. It
 * loads them as well: what a test needs of its machine is looked for when it runs.
 * @param {PartContext} context @param {GuestSession} session
 * @returns {Promise<Outcome[]>}
 */
async function transform(context, { runs }) {
  const outcomes = [];
  for (const { name, args } of runs) {
    outcomes.push(
      await context.check(`${name}: load`, process.execPath, [tools.vitest, 'list', ...args], {
        timeLimitMs: transformMs,
        // Of no device: nothing is run.
        env: { VERBMQ_RDMA_ADDRESS: '192.0.2.1' },
      }),
    );
  }
  return outcomes;
}

/** @param {PartContext} context @returns {Promise<string[]>} shell commands that put bundles in the places of the packages, in the guest alone */
async function putBundles(context) {
  const bundled = await bundlePackages(mkdtempSync(join(context.directory, 'packages-')));
  return bundled.map(({ files, built }) => `mount --bind ${quote(files)} ${quote(built)} || exit 125`);
}

/** What the guest's shell puts in the place of its directory of results, whose path only it knows. */
const guestOut = '@OUT@';

/** @param {string} text @returns {string} a shell's word for it */
const guestWord = (text) => quote(text).replaceAll(guestOut, `'"$VERBMQ_GUEST_OUT"'`);

/** @param {VitestRun} run */
function guestCommand(run) {
  const environment = environmentOf(run, guestOut, `${guestOut}/${run.name}.jsonl`);
  const words = [
    'env',
    ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
    run.node ?? process.execPath,
    ...vitestArgs(run),
  ];
  return [
    `echo ${quote(`--- ${run.name}`)}`,
    words.map(guestWord).join(' '),
    `echo $? >${guestWord(`${guestOut}/${run.name}.status`)}`,
  ].join('\n');
}
