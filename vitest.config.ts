import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/support/longest-first.js';

/** In the guest under software emulation everything takes several times as long. */
const slowness = process.env.VERBMQ_GUEST === undefined ? 1 : 6;

/** Tests wait for events; these times only end what hangs, and leave room for a machine that does much else. */
const times = { testTimeout: 40_000 * slowness, hookTimeout: 40_000 * slowness };
const guestTests = '**/*.guest.test.ts';
const failoverTests = 'test/auto/failover/*.guest.test.ts';
/** What looks at the process that it runs in, or takes away the device that a process has open from its first use on. */
const ownProcessTests =
  'test/native/{device-removal,huge-pages,polling,shared-receive-queue-crowd}.guest.test.ts';
/** What a run of `npm test` leaves to another part; projects with an `exclude` of their own do not look at the argument of that name. */
const leftToOthers = process.env.VERBMQ_TESTS_LEFT_OUT?.split(',') ?? [];
const left = ['**/node_modules/**', '**/dist/**', ...leftToOthers];

/** Node imports what is built as it does for users. Vitest would read and change each file for each test file again. */
const server = { deps: { external: [/\/packages\/[^/]+\/dist\//] } };

/** A library that processes with tests load before all others; see scripts/test/sanitizer.mjs. */
const preload = process.env.VERBMQ_TEST_PRELOAD;
const env = preload === undefined ? {} : { LD_PRELOAD: preload };

/** What vitest has made of a file is kept, as long as that is unchanged: in the guest making it takes a second for each. */
const experimental = { fsModuleCache: true };

const common = { server, env, setupFiles: ['test/support/after-a-failure.ts'] };

/**
 * | project | what | where |
 * |---|---|---|
 * | `unit` | each package by itself | the machine |
 * | `conformance` | the contract on memory, TCP, TLS, Unix sockets | the machine |
 * | `native` | the addon, without a device and on a simulated one | the machine |
 * | `peers` | what rpc is compared with, after `npm run bootstrap -- --peers` | the machine |
 * | `guest` | what needs an RDMA device, in one process: in the guest a new one costs some 20 s | the guest, or a machine that has one |
 * | `guest-alone` | the same, each file in a process of its own | there as well |
 * | `failover` | everything fails, as often as is asked for | the guest, one or two of them |
 * | `vm` | boots guests | the machine |
 *
 * Tests are TypeScript and run as they are; the packages that they import are the built ones (`dist/`).
 */
export default defineConfig({
  test: {
    experimental,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...times,
          ...common,
          name: 'unit',
          include: [
            'packages/*/test/**/*.test.ts',
            'test/{scripts,unit,codec,rpc,queue,pubsub,auto,bench}/**/*.test.ts',
            'test/*.test.ts',
          ],
          exclude: [...left, guestTests, 'packages/native/**'],
        },
      },
      {
        test: {
          ...times,
          ...common,
          name: 'conformance',
          include: ['test/conformance/**/*.test.ts'],
          exclude: [...left, guestTests],
          pool: 'forks',
        },
      },
      {
        test: {
          ...times,
          ...common,
          name: 'native',
          include: ['packages/native/test/**/*.test.ts', 'test/{native,simulated-verbs}/**/*.test.ts'],
          exclude: [...left, guestTests],
          pool: 'forks',
        },
      },
      {
        test: {
          ...times,
          ...common,
          name: 'peers',
          include: ['test/peers/**/*.test.ts'],
          exclude: left,
        },
      },
      {
        test: {
          ...times,
          ...common,
          name: 'guest',
          include: [guestTests],
          exclude: [...left, failoverTests, ownProcessTests],
          pool: 'forks',
          fileParallelism: false,
          isolate: false,
          sequence: { groupOrder: 1 },
        },
      },
      ...[
        { name: 'guest-alone', include: [ownProcessTests] },
        { name: 'failover', include: [failoverTests] },
      ].map((project) => ({
        test: {
          ...times,
          ...common,
          ...project,
          exclude: left,
          pool: 'forks' as const,
          fileParallelism: false,
        },
      })),
      {
        test: {
          testTimeout: 600_000,
          hookTimeout: 600_000,
          ...common,
          name: 'vm',
          include: ['test/vm/**/*.test.ts'],
          exclude: [...left, guestTests],
          pool: 'forks',
          fileParallelism: false,
        },
      },
    ],
  },
});
