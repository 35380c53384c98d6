import { defineConfig } from 'vitest/config';

/** In the guest under software emulation everything takes several times as long. */
const slowness = process.env.VERBMQ_GUEST === undefined ? 1 : 6;

/** Tests wait for events; these times only end what hangs, and leave room for a machine that does much else. */
const times = { testTimeout: 40_000 * slowness, hookTimeout: 40_000 * slowness };
const guestTests = '**/*.guest.test.ts';
const failoverTests = 'test/auto/failover/*.guest.test.ts';
/** What looks at the process that it runs in, or takes away the device that a process has open from its first use on. */
const ownProcessTests =
  'test/native/{device-removal,huge-pages,polling,shared-receive-queue-crowd}.guest.test.ts';
const left = ['**/node_modules/**', '**/dist/**'];

/** Node imports what is built as it does for users. Vitest would read and change each file for each test file again. */
const server = { deps: { external: [/\/packages\/[^/]+\/dist\//] } };

const common = { server, setupFiles: ['test/support/after-a-failure.ts'] };

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
