/**
 * The parts of `npm test` that run the addon under AddressSanitizer and UndefinedBehaviorSanitizer.
 */

import { join } from 'node:path';
import { root } from '../lib/paths.mjs';
import { inFull } from './scope.mjs';
import { leavingOut, runVitest, runVitestInGuest } from './vitest-run.mjs';

const minute = 60_000;

/** @param {import('./context.mjs').PartContext} context */
const build = (context) =>
  context.check(
    'build with sanitizers',
    process.execPath,
    [join(root, 'packages/native/scripts/install.mjs'), '--sanitize', '--required'],
    { timeLimitMs: 20 * minute },
  );

/**
 * @param {string} name
 * @param {string} title
 * @param {(context: import('./context.mjs').PartContext) => Promise<import('./results.mjs').Outcome[]>} run
 * @returns {import('./parts.mjs').Part} builds the addon first; for that it needs the compiler that the guest's
 *   bootstrap installs
 */
const sanitizerPart = (name, title, run) => ({
  name,
  title,
  inGuest: true,
  patient: true,
  run: async (context) => {
    const built = await build(context);
    return built.state === 'failed' ? [built] : [built, ...(await run(context))];
  },
});

/**
 * Auto calls into the addon as any other connection does. A device like mlx, and shared receive slots, which the tests of the addon
 * share as well, are tested without sanitizers.
 */
export const sanitizedSuites = inFull
  ? ['rdma-simulated', 'auto-rdma-simulated']
  : ['rxe', 'siw'].map((name) => `rdma-simulated-${name}`);
const where = [
  ...sanitizedSuites.map((suite) => `conformance/${suite}`),
  ...['packages/native', 'test/native', 'test/simulated-verbs'],
];
const env = {
  // They take builds without a sanitizer.
  ...leavingOut(['message-costs', 'credits'].map((name) => `test/native/${name}`)),
  // A soak of full length is that of the part `native`.
  ...(inFull ? {} : { VERBMQ_SOAK_MESSAGES: '600' }),
};

export const asan = sanitizerPart(
  'asan',
  'the addon under sanitizers, on the simulated device',
  (context) => {
    const args = ['--project', 'native', '--project', 'conformance', '--maxWorkers', '2', ...where];
    return runVitest(context, { name: 'asan', args, env, sanitizers: true }, 40 * minute);
  },
);

export const asanRxe = sanitizerPart(
  'asan-rxe',
  'the addon under sanitizers, on Soft-RoCE: a peer that dies in mid traffic',
  (context) => {
    const args = ['--project', 'guest', 'native/peer-death'];
    return runVitestInGuest(context, {
      name: 'asan-rxe',
      driver: 'rxe',
      runs: [{ name: 'asan-rxe', args, sanitizers: true }],
      timeLimitMs: 20 * minute,
    });
  },
);
