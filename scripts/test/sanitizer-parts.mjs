/**
 * The parts of `npm test` that run the addon under AddressSanitizer and UndefinedBehaviorSanitizer.
 */

import { join } from 'node:path';
import { root } from '../lib/paths.mjs';
import { runVitest, runVitestInGuest } from './vitest-run.mjs';

const minute = 60_000;

/** @param {import('./context.mjs').PartContext} context */
const build = (context) =>
  context.check(
    'build with sanitizers',
    process.execPath,
    [join(root, 'packages/native/scripts/install.mjs'), '--sanitize', '--required'],
    { timeLimitMs: 10 * minute },
  );

/**
 * Both need the compiler that the guest's bootstrap installs.
 * @type {import('./parts.mjs').Part[]}
 */
export const sanitizerParts = [
  {
    name: 'asan',
    title: 'the addon under sanitizers, on the simulated device',
    inGuest: true,
    patient: true,
    run: async (context) => {
      const built = await build(context);
      if (built.state === 'failed') {
        return [built];
      }
      const where = ['rdma-simulated-rxe', 'packages/native', 'test/native'];
      const args = ['--project', 'native', '--project', 'conformance', ...where];
      return [built, ...(await runVitest(context, { name: 'asan', args, sanitizers: true }, 10 * minute))];
    },
  },
  {
    name: 'asan-rxe',
    title: 'the addon under sanitizers, on Soft-RoCE: a peer that dies in mid traffic',
    inGuest: true,
    patient: true,
    run: async (context) => {
      const built = await build(context);
      if (built.state === 'failed') {
        return [built];
      }
      const run = {
        name: 'asan-rxe',
        args: ['--project', 'guest', 'native/peer-death'],
        sanitizers: true,
      };
      return [
        built,
        ...(await runVitestInGuest(context, {
          name: 'asan-rxe',
          driver: 'rxe',
          runs: [run],
          timeLimitMs: 10 * minute,
        })),
      ];
    },
  },
];
