/**
 * The parts of `npm test`, in their order: what is quick and tells most comes first. They run one after the other, because
 * tests of timing want the machine to themselves, but for those that are marked as patient.
 */

import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { GuestError } from '../../test/vm/guest-error.mjs';
import { missingPackages } from '../../test/vm/packages.mjs';
import { guestPackages } from '../bootstrap/steps.mjs';
import { root, tools } from '../lib/paths.mjs';
import { failover, noDevice, rxe, siw, vm } from './guest-parts.mjs';
import { nodeOfVersion, otherNodes } from './other-node.mjs';
import { checkPackages } from './package-checks.mjs';
import { skipped } from './results.mjs';
import { asan, asanRxe, sanitizedSuites } from './sanitizer-parts.mjs';
import { inFull } from './scope.mjs';
import { leavingOut, runVitest } from './vitest-run.mjs';

const minute = 60_000;

/**
 * @typedef {import('./context.mjs').PartContext} PartContext
 *
 * @typedef {object} Session what the parts tell each other
 * @property {boolean} requireGuest
 * @property {readonly string[]} names of the parts that are run
 * @property {string | undefined} noGuestBecause why the parts in the guest are skipped
 * @property {boolean} stop nothing else can run
 *
 * @typedef {object} Part
 * @property {string} name for `--only`, the table and the logs
 * @property {string} title
 * @property {'all' | 'guest'} [prepares] the parts that cannot run without it
 * @property {boolean} [inGuest] needs what the guest's bootstrap installs
 * @property {boolean} [patient] may run at the same time as its neighbours that are patient too
 * @property {boolean | undefined} [onDemand] runs only when it is named: here another part shows the same
 * @property {(context: PartContext, session: Session) => Promise<import('./results.mjs').Outcome[]>} run
 */

/**
 * @param {readonly Part[]} all
 * @param {readonly string[] | undefined} only names; undefined: all
 * @returns {Part[]} those, and the parts that prepare for them
 */
export function selectParts(all, only) {
  const chosen = all.filter(({ name, onDemand }) => (only === undefined ? !onDemand : only.includes(name)));
  const guest = chosen.some(({ inGuest }) => inGuest);
  return all.filter(
    (part) => chosen.includes(part) || part.prepares === 'all' || (part.prepares === 'guest' && guest),
  );
}

/**
 * @param {readonly Part[]} all
 * @returns {Part[][]} neighbours that are patient are in one group, unless one prepares for the other; each other one is in its own
 */
export function groupParts(all) {
  /** @type {Part[][]} */
  const groups = [];
  for (const part of all) {
    const last = groups.at(-1);
    const isPrepared = part.inGuest && last?.some(({ prepares }) => prepares === 'guest');
    if (part.patient && last?.[0].patient && !isPrepared) {
      last.push(part);
    } else {
      groups.push([part]);
    }
  }
  return groups;
}

/** @returns {string | undefined} why the guest cannot be prepared here; undefined when it is, or when that can be tried */
function guestObstacle() {
  try {
    const missing = missingPackages(guestPackages());
    return missing.length === 0 || process.getuid?.() === 0
      ? undefined
      : `these Debian packages are missing, and only root can install them: ${missing.join(' ')}`;
  } catch (error) {
    if (error instanceof GuestError) {
      return error.message;
    }
    throw error;
  }
}

/** @param {string} name of a script, without its extension */
const script = (name) => join(root, 'scripts', `${name}.mjs`);

/**
 * Vitest leaves a core to whoever watches it, which on a machine with two is half of it. Tests of the addon wait for a good part of their
 * time, for a device that is late on purpose: half as many more keep the cores busy.
 * @param {string} project
 */
const onEveryCore = (project) => [
  '--maxWorkers',
  String(Math.ceil(availableParallelism() * (project === 'native' ? 1.5 : 1))),
];

/**
 * What the part `asan` does as well, by the same tests: sanitizers find what a plain run finds, and more. So it is left to them where that part
 * follows. What they do shorter, or on fewer devices, stays.
 * @type {Record<string, Record<string, string>>} by project, what its run finds in its environment
 */
const leftToSanitizers = {
  conformance: leavingOut(sanitizedSuites.map((suite) => `test/conformance/${suite}`)),
  native: {
    ...leavingOut([
      'packages/native/test/handles',
      ...['connecting-faults', 'large-faults', 'auto-ends'].map((name) => `test/native/${name}`),
      'test/simulated-verbs/simulated-verbs',
    ]),
    VERBMQ_SANITIZED_NEXT: '1',
  },
};

/** @param {Pick<Session, 'names' | 'noGuestBecause'>} session @returns {boolean} whether the part `asan` will run */
export const sanitizersFollow = ({ names, noGuestBecause }) =>
  names.includes('asan') && noGuestBecause === undefined;

const fuzzTests = ['test/rpc/fuzz', 'test/queue/fuzz', 'test/pubsub/fuzz'];

/** @type {Part} */
const fuzz = {
  name: 'fuzz',
  title: 'a minute of anything at all that a peer could say',
  patient: true,
  run: (context) =>
    runVitest(
      context,
      {
        name: 'fuzz',
        args: ['--project', 'unit', '--maxWorkers', String(fuzzTests.length), ...fuzzTests],
        env: { VERBMQ_FUZZ_SECONDS: '60' },
      },
      5 * minute,
    ),
};

/** @type {Part} */
const peers = {
  name: 'peers',
  title: 'what rpc is compared with: its packages, types, and that each answers',
  patient: true,
  run: async (context) => [
    await context.check('bootstrap of the peers', process.execPath, [script('bootstrap'), '--peers'], {
      timeLimitMs: 10 * minute,
    }),
    ...(await runVitest(context, { name: 'peers', args: ['--project', 'peers'] }, 5 * minute)),
  ],
};

/**
 * What may differ between two versions of Node: sockets, processes, memory, streams, signals, and the addon, which is built for no version in
 * particular. One transport of a kind shows it; what is the same JavaScript on another one is left out.
 */
const onOtherNodes = [
  ...['packages', 'test/codec', 'test/examples', 'test/observing'],
  ...['authentication', 'certificates', 'closing', 'encrypted', 'killed-peers', 'resuming'].map(
    (name) => `test/auto/${name}`,
  ),
  ...['rpc/tcp', 'rpc/killed-peers', 'queue/queue', 'pubsub/pubsub'],
  ...['tcp', 'tls', 'rdma-simulated-rxe'].map((suite) => `test/conformance/${suite}.test`),
];

/** @type {Part[]} */
export const parts = [
  {
    name: 'bootstrap',
    title: 'dependencies, TypeScript, addon',
    prepares: 'all',
    run: async (context) => [
      await context.check('bootstrap', process.execPath, [script('bootstrap')], { timeLimitMs: 15 * minute }),
    ],
  },
  {
    name: 'guest-bootstrap',
    title: 'the guest: system packages, kernel, addon',
    prepares: 'guest',
    patient: true,
    run: async (context, session) => {
      const title = 'bootstrap of the guest';
      const obstacle = guestObstacle();
      if (obstacle !== undefined && !session.requireGuest) {
        session.noGuestBecause = obstacle;
        return [skipped(title, obstacle)];
      }
      return [
        await context.check(title, process.execPath, [script('bootstrap'), '--guest'], {
          timeLimitMs: 20 * minute,
        }),
      ];
    },
  },
  {
    name: 'lint',
    title: 'biome, the dependency rule, documents, files',
    patient: true,
    run: async (context) => {
      const settings = { timeLimitMs: 2 * minute };
      const node = process.execPath;
      return [
        await context.check('biome', node, [tools.biome, 'check', '--error-on-warnings', '.'], settings),
        await context.check('dependency rule', node, [script('check-dependency-rule')], settings),
        await context.check('documents', node, [script('check-documents')], settings),
        await context.check('files', node, [script('check-files')], settings),
        await context.check('projects of tests', node, [script('check-test-projects')], settings),
      ];
    },
  },
  {
    name: 'types',
    title: 'TypeScript, tests included',
    patient: true,
    run: async (context) => [
      await context.check('tsc --build', process.execPath, [tools.tsc, '--build'], {
        timeLimitMs: 5 * minute,
      }),
    ],
  },
  {
    name: 'packages',
    title: 'the packages as users get them',
    patient: true,
    run: checkPackages,
  },
  ...['unit', 'conformance', 'native'].map((project) => ({
    name: project,
    title: `vitest project ${project} on Node ${process.versions.node}`,
    run: (/** @type {PartContext} */ context, /** @type {Session} */ session) => {
      const env = !inFull && sanitizersFollow(session) ? leftToSanitizers[project] : undefined;
      const args = ['--project', project, ...onEveryCore(project)];
      return runVitest(context, { name: project, args, env }, 20 * minute);
    },
  })),
  ...otherNodes.map((version) => ({
    name: `node-${version}`,
    title: `what may differ on Node ${version}`,
    run: async (/** @type {PartContext} */ context) => {
      const node = await nodeOfVersion(context, version);
      const projects = ['unit', 'conformance', 'native'].flatMap((project) => ['--project', project]);
      const args = [...projects, ...onEveryCore('native'), ...(inFull ? [] : onOtherNodes)];
      return runVitest(context, { name: `node-${version}`, node, args }, 40 * minute);
    },
  })),
  // Two of them run at a time: the longest come first, so that both lanes end together.
  ...[rxe, asan, siw, failover, vm, asanRxe, noDevice, fuzz, peers],
];
