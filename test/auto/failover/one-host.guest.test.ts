// Both ends of a connection in one process, whose only device is deleted and added again. It is run by hand:
//
//   npm run guest -- --env VERBMQ_FAILOVER_ROUNDS=3 -- npx vitest run --project failover one-host
import { spawn } from 'node:child_process';
import { afterAll, type TestContext, test } from 'vitest';
import { expectNothingLost } from '../../rpc/moves.js';
import { asAuto, leaveAndReturn, onBase, onFast } from '../../support/auto-pair.js';
import { streamsBetween } from '../../support/numbered-stream.js';
import { abortAfterTest, nextConnection } from '../../support/pair.js';
import { addOtherDevice } from './host.js';
import { MAX_BYTES, NOT_ASKED, ROUNDS, transportForFailover } from './settings.js';
import { Shell } from './shell.js';

const { VERBMQ_GUEST_DRIVER, VERBMQ_GUEST_HOSTS } = process.env;
const rdmaHost = process.env.VERBMQ_RDMA_ADDRESS as string;

let otherDevice: Promise<void> | undefined;

// It goes when this process, whose librdmacm has it open, has ended.
afterAll(() => {
  if (otherDevice !== undefined)
    spawn('rdma', ['link', 'delete', 'other'], { detached: true, stdio: 'ignore' }).unref();
});

/** Both ends of a connection, and what takes its device away and gives it back. */
async function onDevice() {
  const shell = new Shell();
  otherDevice ??= addOtherDevice(shell, 'vb');
  await otherDevice;
  const listener = await transportForFailover().listen('verbmq://127.0.0.1:0', {
    fastAddresses: [{ host: rdmaHost, port: 0 }],
  });
  const accepted = nextConnection(listener);
  const client = asAuto(abortAfterTest(await transportForFailover().connect(listener.url)));
  const server = asAuto(abortAfterTest(await accepted));
  return {
    client,
    server,
    deleteDevice: () => shell.run('rdma link delete rxe0'),
    addDevice: () => shell.run('rdma link add rxe0 type rxe netdev va'),
  };
}

function skipUnlessAsked(context: TestContext): void {
  if (NOT_ASKED !== undefined) context.skip(NOT_ASKED);
  if (VERBMQ_GUEST_HOSTS !== '1' || VERBMQ_GUEST_DRIVER !== 'rxe')
    context.skip(
      'only one host with Soft-RoCE has a device that may be deleted, and an interface for another',
    );
}

test('a device that is deleted and added again while messages flow both ways', async (context) => {
  skipUnlessAsked(context);
  const { client, server, deleteDevice, addDevice } = await onDevice();
  const { traffic, progress } = streamsBetween(client, server, MAX_BYTES);
  for (let round = 0; round < ROUNDS; round++) {
    await onFast(client);
    await progress(50);
    const deleted = deleteDevice();
    await onBase(client);
    await progress(50);
    await deleted;
    await addDevice();
  }
  await onFast(client);
  await Promise.all(traffic.map((stream) => stream.finish()));
});

test('a device that is deleted and added again while calls, jobs and events are under way', async (context) => {
  skipUnlessAsked(context);
  const { client, server, deleteDevice, addDevice } = await onDevice();
  await expectNothingLost(
    { client, server, move: leaveAndReturn(client, deleteDevice, addDevice) },
    ROUNDS * 2 + 1,
  );
});
