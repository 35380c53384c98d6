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
 * @param {Omit<import('./vitest-run.mjs').GuestSession, 'name' | 'runs'> & {args: string[]}} session
 * @returns {import('./parts.mjs').Part}
 */
const guestPart = (name, title, { args, ...session }) => ({
  name,
  title,
  inGuest: true,
  run: (context) => runVitestInGuest(context, { ...session, name, runs: [{ name, args }] }),
});

const all = ['--project', 'guest'];

/** @type {import('./parts.mjs').Part[]} */
export const guestParts = [
  {
    name: 'vm',
    title: 'the guest itself',
    inGuest: true,
    run: (context) => runVitest(context, { name: 'vm', args: ['--project', 'vm'] }, 10 * minute),
  },
  guestPart('rxe', 'RDMA on Soft-RoCE', { driver: 'rxe', args: all, timeLimitMs: 10 * minute }),
  guestPart('siw', 'RDMA on Soft-iWARP', { driver: 'siw', args: all, timeLimitMs: 10 * minute }),
];
