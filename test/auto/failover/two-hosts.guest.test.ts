// Two hosts with RDMA on one cable and TCP on another, numbered messages both ways as fast as they go, and everything that
// can go wrong between and on the hosts, at random moments. `npm test` has everything fail once; by hand, as often as it is told:
//
//   npm run guest -- --hosts 2 --timeout 7200 --env VERBMQ_FAILOVER_ROUNDS=100 -- npx vitest run --project failover two-hosts
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Connection, PathInfo } from 'verbmq';
import { expect, onTestFinished, test } from 'vitest';
import { describeEnvironment } from '../../../bench/environment.js';
import type { FailoverReport } from '../../../bench/report/failover.js';
import { asAuto, onFast } from '../../support/auto-pair.js';
import { abortAfterTest, nextConnection } from '../../support/pair.js';
import { randomFrom } from '../../support/random.mjs';
import { BREAKS_RDMA, FAULTS } from './faults.js';
import { Figures } from './figures.js';
import { addOtherDevice, localHost } from './host.js';
import { remoteHost, serveHost } from './remote-host.js';
import {
  MAX_BYTES,
  MAX_KEPT_BYTES,
  NOT_ASKED,
  OPTIONS,
  ROUNDS,
  SEED,
  transportForFailover,
} from './settings.js';
import { Shell } from './shell.js';

const { VERBMQ_GUEST_DRIVER, VERBMQ_GUEST_HOSTS, VERBMQ_GUEST_ROLE } = process.env;
const { VERBMQ_LAN_ADDRESS, VERBMQ_LAN_PEER_ADDRESS, VERBMQ_RDMA_ADDRESS, VERBMQ_GUEST_OUT } =
  process.env as Record<string, string>;
const PORT = 7400;
const FAST_PORT = 7401;
const CONTROL_PORT = 7402;
const timeout = 300_000 + ROUNDS * 120_000;

test(
  `whatever fails, both hosts receive every message once and in order (seed ${SEED})`,
  async (context) => {
    if (NOT_ASKED !== undefined) return context.skip(NOT_ASKED);
    if (VERBMQ_GUEST_HOSTS !== '2' || VERBMQ_GUEST_DRIVER !== 'rxe')
      return context.skip('it takes two hosts with Soft-RoCE');
    const shell = new Shell();
    await addOtherDevice(shell, 'eth1');
    await (VERBMQ_GUEST_ROLE === 'a' ? serve(shell) : drive(shell));
  },
  timeout,
);

/** Host a: does what it is told. */
async function serve(shell: Shell): Promise<void> {
  const listener = await transportForFailover().listen(
    { host: VERBMQ_LAN_ADDRESS as string, port: PORT },
    { fastAddresses: [{ host: VERBMQ_RDMA_ADDRESS as string, port: FAST_PORT }] },
  );
  const connection = asAuto(abortAfterTest(await nextConnection(listener)));
  const host = localHost(connection, shell, PORT, MAX_BYTES, randomFrom(SEED, 1));
  const control = serveHost(host, VERBMQ_LAN_ADDRESS as string, CONTROL_PORT);
  onTestFinished(() => void control.close());
  expect(await Promise.race([connection.closed, host.ended])).toEqual({
    graceful: true,
    initiator: 'remote',
  });
}

/** Host b: connects, and has things fail. */
async function drive(shell: Shell): Promise<void> {
  const client = asAuto(abortAfterTest(await connectWhenThere()));
  const random = randomFrom(SEED);
  const own = localHost(client, shell, PORT, MAX_BYTES, randomFrom(SEED, 2));
  const other = remoteHost(VERBMQ_LAN_PEER_ADDRESS as string, CONTROL_PORT);
  const hosts = [own, other] as const;
  const figures = new Figures();
  /** How often each thing has happened, and how often one that must have moved the messages from RDMA to TCP. */
  const faults = Object.fromEntries(Object.keys(FAULTS).map((kind) => [kind, 0]));
  let moves = 0;
  const paths: PathInfo[] = [client.path];
  client.onPath((path) => {
    paths.push(path);
    note(JSON.stringify(path));
  });

  const watch = (): Promise<unknown> => Promise.all(hosts.map((host) => host.watch()));
  const progress = (): Promise<unknown> => Promise.all(hosts.map((host) => host.progress()));
  const gapMs = async (): Promise<number> =>
    Math.max(...(await Promise.all(hosts.map((host) => host.longestGapMs()))));

  /** Until everything is well, and for a moment more. */
  const settle = async (): Promise<void> => {
    await watch();
    await onFast(client);
    await progress();
    figures.add('return to RDMA', await gapMs());
    await watch();
    await delay(random() * 300);
    await progress();
    figures.add('nothing fails', await gapMs());
  };

  const fail = async (kind: string, hurried: boolean): Promise<void> => {
    const at = random() < 0.5 ? 'own' : 'other';
    note(`${kind} at the ${at} host`);
    const host = at === 'own' ? own : other;
    if (client.path.fast && BREAKS_RDMA.has(kind)) moves++;
    const { cutMs = 0, repair } = await FAULTS[kind]!({ client, host, random, watch });
    faults[kind]!++;
    note('messages can flow');
    await progress();
    figures.add(hurried ? 'while another is not over' : kind, (await gapMs()) - cutMs);
    note('they do');
    await repair?.();
    note('repaired');
  };

  const run = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS; round++) {
      for (const kind of shuffled(Object.keys(FAULTS), random)) {
        const hurried = moves > 0 && random() < 0.25;
        await (hurried ? delay(random() * 300) : settle());
        await fail(kind, hurried);
      }
    }
    await settle();
  };
  await Promise.race([run(), own.ended]);

  const [sent, sentByOther] = await Promise.all(hosts.map((host) => host.stopSending()));
  await Promise.all([own.reached(sentByOther as number), other.reached(sent as number)]);
  const [ownReport, otherReport] = await Promise.all([own.report(), other.report()]);
  expect([otherReport.messages, ownReport.messages]).toEqual([sent, sentByOther]);
  expect(await client.close()).toEqual({ graceful: true, initiator: 'local' });
  // A run in which something did not fail shows nothing.
  expect(faults).toEqual(Object.fromEntries(Object.keys(FAULTS).map((kind) => [kind, ROUNDS])));
  expect(timesLeft(paths)).toBeGreaterThanOrEqual(Math.max(1, moves));
  const received = [ownReport, otherReport] as const;
  for (const { keptBytes } of received) expect(keptBytes).toBeLessThanOrEqual(MAX_KEPT_BYTES);
  publish({
    environment: describeEnvironment('guest'),
    seed: SEED,
    rounds: ROUNDS,
    fastTimeoutMs: OPTIONS.fastTimeoutMs,
    windowBytes: OPTIONS.windowBytes,
    faults,
    received,
    pausesMs: figures.summary(),
  });
}

/** How often a fast path was left for the base. */
function timesLeft(paths: readonly PathInfo[]): number {
  return paths.filter(({ fast }, index) => !fast && paths[index - 1]?.fast).length;
}

/** The other host is slower or faster to start. */
async function connectWhenThere(): Promise<Connection> {
  const transport = transportForFailover();
  for (;;) {
    try {
      return await transport.connect({ host: VERBMQ_LAN_PEER_ADDRESS as string, port: PORT });
    } catch {
      await delay(500);
    }
  }
}

/** For whoever looks for the cause of a failure: what happened, and when. */
function note(what: string): void {
  const seconds = (performance.now() / 1000).toFixed(3);
  appendFileSync(join(VERBMQ_GUEST_OUT as string, 'diary.txt'), `${seconds} s: ${what}\n`);
}

function publish(report: FailoverReport): void {
  const text = JSON.stringify(report);
  console.log(text);
  writeFileSync(join(VERBMQ_GUEST_OUT as string, 'failover.json'), `${text}\n`);
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, key: random() }))
    .sort((one, other) => one.key - other.key)
    .map(({ item }) => item);
}
