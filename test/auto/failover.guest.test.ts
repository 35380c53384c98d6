// Real devices and cables that fail while messages flow: on one host the device is deleted and added again, on two
// cables are cut too, with RDMA on the one and TCP on the other. It is run by hand, so often as it is told:
//
//   npm run guest -- --env VERBMQ_FAILOVER_ROUNDS=3 -- npx vitest run --project guest test/auto/failover
//   npm run guest -- --hosts 2 --env VERBMQ_FAILOVER_ROUNDS=100 -- npx vitest run --project guest test/auto/failover
import { execFile, spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type PathInfo, VerbmqTransport } from 'verbmq';
import { expect, onTestFinished, test } from 'vitest';
import { asAuto, onFast, pathIs } from '../support/auto-pair.js';
import { NumberedReceiver, NumberedSender, NumberedStream } from '../support/numbered-stream.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { cut, restore } from '../vm/cable.mjs';

const { VERBMQ_GUEST_DRIVER, VERBMQ_GUEST_HOSTS, VERBMQ_GUEST_ROLE } = process.env;
const rdmaHost = process.env.VERBMQ_RDMA_ADDRESS as string;
const MAX_BYTES = 3000;
const PORT = 7400;

/** How often each thing happens. */
const ROUNDS = Number(process.env.VERBMQ_FAILOVER_ROUNDS ?? 0);

/** A device that is deleted under a test stays away when the test fails: so none is unless that was asked for. */
const NOT_ASKED = ROUNDS === 0 ? 'VERBMQ_FAILOVER_ROUNDS does not say how often' : undefined;

function transport(): VerbmqTransport {
  const made = new VerbmqTransport({
    minFastRetryMs: 200,
    maxFastRetryMs: 2000,
    maxResumeDelayMs: 1000,
    resumeWindowMs: 120_000,
    fastTimeoutMs: 5000,
    heartbeatIntervalMs: 1000,
    peerTimeoutMs: 8000,
  });
  onTestFinished(() => made.close());
  return made;
}

const rdmaLink = (...words: string[]): Promise<unknown> => promisify(execFile)('rdma', ['link', ...words]);

test('a device that is deleted and added again while messages flow both ways', async (context) => {
  if (NOT_ASKED !== undefined) return context.skip(NOT_ASKED);
  if (VERBMQ_GUEST_HOSTS !== '1' || VERBMQ_GUEST_DRIVER !== 'rxe')
    return context.skip(
      'only one host with Soft-RoCE has a device that may be deleted, and an interface for another',
    );
  // librdmacm closes a device that is gone only where there is another one; see docs/rdma-setup.md.
  await rdmaLink('add', 'other', 'type', 'rxe', 'netdev', 'vb');
  // It goes when this process, whose librdmacm has it open, has ended.
  onTestFinished(() =>
    spawn('rdma', ['link', 'delete', 'other'], { detached: true, stdio: 'ignore' }).unref(),
  );
  const listener = await transport().listen('verbmq://127.0.0.1:0', {
    fastAddresses: [{ host: rdmaHost, port: 0 }],
  });
  const accepted = nextConnection(listener);
  const client = asAuto(abortAfterTest(await transport().connect(listener.url)));
  const server = asAuto(abortAfterTest(await accepted));
  const traffic = [
    new NumberedStream(client, server, MAX_BYTES),
    new NumberedStream(server, client, MAX_BYTES),
  ];
  const progress = (count: number): Promise<unknown> =>
    Promise.all(traffic.map((stream) => stream.progress(count)));
  for (let round = 0; round < ROUNDS; round++) {
    await onFast(client);
    await progress(50);
    const deleted = rdmaLink('delete', 'rxe0');
    await pathIs(client, ({ fast, flowing }) => !fast && flowing);
    await progress(50);
    await deleted;
    await rdmaLink('add', 'rxe0', 'type', 'rxe', 'netdev', 'va');
  }
  await onFast(client);
  await Promise.all(traffic.map((stream) => stream.finish()));
});

test('cables that are cut between two hosts while messages flow both ways', async (context) => {
  if (NOT_ASKED !== undefined) return context.skip(NOT_ASKED);
  if (VERBMQ_GUEST_HOSTS !== '2') return context.skip('it takes two hosts');
  if (VERBMQ_GUEST_ROLE === 'a') {
    const listener = await transport().listen(
      { host: process.env.VERBMQ_LAN_ADDRESS as string, port: PORT },
      { fastAddresses: [{ host: rdmaHost, port: PORT + 1 }] },
    );
    const server = asAuto(abortAfterTest(await nextConnection(listener)));
    const receiver = new NumberedReceiver(server);
    const sender = new NumberedSender(server, MAX_BYTES);
    expect(await Promise.race([server.closed, receiver.broken])).toEqual({
      graceful: true,
      initiator: 'remote',
    });
    await sender.stop().catch(() => {}); // the last send may have met the close
    return;
  }

  const client = asAuto(abortAfterTest(await connectWhenThere()));
  const paths: PathInfo[] = [];
  client.onPath((path) => paths.push(path));
  const receiver = new NumberedReceiver(client);
  const sender = new NumberedSender(client, MAX_BYTES);
  const progress = (): Promise<void> => receiver.reached(receiver.received + 50);
  for (let round = 0; round < ROUNDS; round++) {
    await onFast(client);
    await progress();
    await cut('cable'); // RDMA is gone, TCP is not
    await pathIs(client, ({ fast, flowing }) => !fast && flowing);
    await progress();
    await restore('cable');
    await onFast(client);
    await progress();
    await cut('cable');
    await cut('lan');
    await delay(100 + Math.random() * 4900);
    await restore('cable');
    await restore('lan');
    await progress();
  }
  await sender.stop();
  expect(await Promise.race([client.close(), receiver.broken])).toEqual({
    graceful: true,
    initiator: 'local',
  });
  expect(paths.filter(({ fast }) => fast).length).toBeGreaterThanOrEqual(ROUNDS);
});

/** The other host is slower or faster to start. */
async function connectWhenThere() {
  const made = transport();
  for (;;) {
    try {
      return await made.connect({ host: process.env.VERBMQ_LAN_PEER_ADDRESS as string, port: PORT });
    } catch {
      await delay(500);
    }
  }
}
