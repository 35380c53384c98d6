/**
 * The parts of `npm test` that run in the guest. Node is some fifteen times slower there, so that each boot does all that
 * its driver is for in one run.
 */

import { runVitest, runVitestInGuest } from './vitest-run.mjs';

const minute = 60_000;

/** @typedef {import('./context.mjs').PartContext} PartContext */

/**
 * @param {string} name
 * @param {string} title
 * @param {Omit<import('./vitest-run.mjs').GuestSession, 'name' | 'runs'> & {args: string[], env?: Record<string, string>}} session
 * @returns {import('./parts.mjs').Part}
 */
const guestPart = (name, title, { args, env, ...session }) => ({
  name,
  title,
  inGuest: true,
  patient: true,
  run: (context) => runVitestInGuest(context, { ...session, name, runs: [{ name, args, env }] }),
});

/** The longest first: they run two at a time. @type {import('./parts.mjs').Part[]} */
export const guestParts = [
  guestPart('rxe', 'RDMA on Soft-RoCE', {
    driver: 'rxe',
    args: ['--project', 'guest'],
    timeLimitMs: 45 * minute,
  }),
  guestPart('siw', 'RDMA on Soft-iWARP', {
    driver: 'siw',
    // What depends on how the device ends, refuses, and does without atomics, and the layers above it.
    args: [
      ...['--project', 'guest', 'conformance/rdma', 'native/ends', 'native/peer-death', 'native/children'],
      ...['test/keys', 'one-sided', 'auto/moving', 'rpc/rdma', 'rpc/moves', 'queue/rdma', 'pubsub/rdma'],
    ],
    timeLimitMs: 45 * minute,
  }),
  guestPart('failover', 'two hosts on Soft-RoCE, between and on which everything fails once', {
    driver: 'rxe',
    hosts: 2,
    args: ['--project', 'guest', 'failover/two-hosts'],
    env: { VERBMQ_FAILOVER_ROUNDS: '1' },
    timeLimitMs: 12 * minute,
  }),
  guestPart('no-device', 'the addon on a kernel without RDMA', {
    driver: 'none',
    // The other tests bring a device of their own, which is the same on every kernel.
    args: [
      '--project',
      'native',
      ...['probe', 'transport', 'whole-pages'].map((name) => `packages/native/test/${name}`),
    ],
    timeLimitMs: 12 * minute,
  }),
  {
    name: 'vm',
    title: 'the guest itself',
    inGuest: true,
    patient: true,
    run: (context) => runVitest(context, { name: 'vm', args: ['--project', 'vm'] }, 12 * minute),
  },
];
