import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { RdmaTransport } from '@verbmq/native';
import { describe, expect, onTestFinished, test } from 'vitest';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const host = process.env.VERBMQ_RDMA_ADDRESS as string;
const talker = fileURLToPath(new URL('./children/talker.mjs', import.meta.url));
const leaver = fileURLToPath(new URL('./children/leaver.mjs', import.meta.url));

function startTalker(ending: string): ChildProcess {
  const child = spawn(process.execPath, [talker, ending, host], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}

describe('a process in the middle of traffic', () => {
  test('that is killed leaves no verbs objects', async () => {
    const before = countVerbsObjects();
    const child = startTalker('forever');
    await once(child.stdout!, 'data');
    expect(countVerbsObjects().qp).toBeGreaterThan(before.qp);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
  });

  test('that calls process.exit() ends at once, without a crash', async () => {
    const before = countVerbsObjects();
    const [code, signal] = await once(startTalker('exit'), 'exit');
    expect({ code, signal }).toEqual({ code: 0, signal: null });
    await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
  });

  test('that closes its transport ends by itself', async () => {
    const [code, signal] = await once(startTalker('close'), 'exit');
    expect({ code, signal }).toEqual({ code: 0, signal: null });
  });
});

describe('a worker thread in the middle of traffic', () => {
  test.each([
    ['terminated', 2],
    ['exit', 2],
    ['throw', 1],
  ])('can be ended (%s) again and again', async (how, rounds) => {
    const before = countVerbsObjects();
    for (let round = 0; round < rounds; round++) {
      const worker = new Worker(talker, { workerData: [how === 'terminated' ? 'forever' : how, host] });
      const failed = new Promise((resolve) => worker.once('error', resolve));
      const ended = new Promise((resolve) => worker.once('exit', resolve));
      await new Promise((resolve) => worker.once('message', resolve));
      if (how === 'terminated') await worker.terminate();
      if (how === 'throw') expect(await failed).toMatchObject({ message: 'thrown on purpose' });
      await ended;
    }
    await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
  });

  test('does not disturb another one', async () => {
    const doomed = new Worker(talker, { workerData: ['forever', host] });
    await once(doomed, 'message');
    const transport = new RdmaTransport();
    onTestFinished(() => transport.close());
    const listener = await transport.listen({ host, port: 0 });
    listener.onConnection((connection) => {
      connection.onMessage((message) => {
        // Where the connection ends under an answer, nobody waits for it.
        connection.send(message.data).catch(() => {});
      });
    });
    const connection = await transport.connect(listener.url);
    let echoes = 0;
    connection.onMessage(() => {
      echoes++;
    });
    await connection.send(new Uint8Array(10));
    await doomed.terminate();
    await connection.send(new Uint8Array(10));
    await until(() => echoes === 2);
    expect(await connection.close()).toMatchObject({ graceful: true });
  });
});

const isSiw = process.env.VERBMQ_GUEST_DRIVER === 'siw';
const whyNot = isSiw ? '' : ' (skipped: others wait for no answer)';
test.skipIf(!isSiw)(`a worker thread ends while its attempt waits for an answer${whyNot}`, async () => {
  const before = countVerbsObjects();
  const silent = createServer();
  onTestFinished(() => {
    silent.close();
  });
  await new Promise<void>((resolve) => silent.listen(0, host, resolve));
  const { port } = silent.address() as AddressInfo;
  const connected = once(silent, 'connection');
  const worker = new Worker(leaver, { workerData: { what: 'connecting', host, port, count: 1 } });
  const [socket] = (await connected) as [Socket];
  await once(socket, 'data'); // the request
  await worker.terminate();
  expect(countVerbsObjects().qp).toBe(before.qp + 1);
  // That is an answer too.
  socket.resetAndDestroy();
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
});

const CONNECTIONS = Number(process.env.VERBMQ_CONNECTIONS ?? 100);
const timeout = 240_000 + 500 * CONNECTIONS;

test(`${CONNECTIONS} connections that come and go leave no verbs objects`, { timeout }, async () => {
  const before = countVerbsObjects();
  const transport = new RdmaTransport();
  const listener = await transport.listen({ host, port: 0 });
  listener.onConnection((connection) => {
    connection.onMessage((message) => {
      // Where the connection ends under an answer, nobody waits for it.
      connection.send(message.data).catch(() => {});
    });
  });
  for (let round = 0; round < CONNECTIONS; round++) {
    const connection = await transport.connect(listener.url);
    const answer = new Promise((resolve) => connection.onMessage(resolve));
    await connection.send(new Uint8Array(round % 200));
    await answer;
    if (round % 3 === 0) connection.abort('every third one');
    else expect(await connection.close()).toMatchObject({ graceful: true });
    await connection.closed;
  }
  await transport.close();
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
});
