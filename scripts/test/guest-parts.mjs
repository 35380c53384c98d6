/**
 * The parts of `npm test` that run in the guest. Node is some fifteen times slower there, so that each boot does all that
 * its driver is for in one run.
 */

import { existsSync } from 'node:fs';
import { inFull } from './scope.mjs';
import { runVitest, runVitestInGuest } from './vitest-run.mjs';

const minute = 60_000;

/** @typedef {import('./context.mjs').PartContext} PartContext */

/**
 * @param {string} name
 * @param {string} title
 * @param {{onDemand?: boolean} & Omit<import('./vitest-run.mjs').GuestSession, 'name' | 'runs'> & {args: string[], env?: Record<string, string> | undefined}} session
 * @returns {import('./parts.mjs').Part}
 */
const guestPart = (name, title, { args, env, onDemand, ...session }) => ({
  name,
  title,
  onDemand,
  inGuest: true,
  patient: true,
  run: (context) => runVitestInGuest(context, { ...session, name, runs: [{ name, args, env }] }),
});

const projects = ['--project', 'guest', '--project', 'guest-alone'];

/** What the tests leave out unless they are asked. */
const env = inFull ? { VERBMQ_WHOLE_CONFORMANCE: '1', VERBMQ_MESSAGING: 'full' } : undefined;
const timeLimitMs = (inFull ? 240 : 45) * minute;

/** What depends on how the device ends, refuses, and does without atomics. The layers above it run on Soft-RoCE. */
const onSiw = [
  ...['conformance/rdma', 'native/ends', 'native/peer-death', 'native/children', 'native/one-sided'],
  ...['native/addresses', 'test/keys', 'auto/moving'],
];

export const rxe = guestPart('rxe', 'RDMA on Soft-RoCE', {
  driver: 'rxe',
  bundled: true,
  args: projects,
  env,
  timeLimitMs,
});

export const siw = guestPart('siw', 'RDMA on Soft-iWARP', {
  driver: 'siw',
  bundled: true,
  args: [...projects, ...(inFull ? [] : onSiw)],
  env,
  timeLimitMs,
});

export const failover = guestPart(
  'failover',
  'two hosts on Soft-RoCE, between and on which everything fails once',
  {
    driver: 'rxe',
    hosts: 2,
    bundled: true,
    args: ['--project', 'failover', 'two-hosts'],
    env: { VERBMQ_FAILOVER_ROUNDS: '1' },
    timeLimitMs: 12 * minute,
  },
);

export const noDevice = guestPart('no-device', 'the addon on a kernel without RDMA', {
  driver: 'none',
  // The part `native` shows it on a machine that has none.
  onDemand: !inFull && !existsSync('/sys/class/infiniband'),
  // The other tests bring a device of their own, which is the same on every kernel.
  args: [
    '--project',
    'native',
    ...['probe', 'transport', 'whole-pages'].map((name) => `packages/native/test/${name}`),
  ],
  timeLimitMs: 12 * minute,
});

/** @type {import('./parts.mjs').Part} */
export const vm = {
  name: 'vm',
  title: 'the guest itself',
  inGuest: true,
  patient: true,
  run: (context) => runVitest(context, { name: 'vm', args: ['--project', 'vm'] }, 12 * minute),
};
