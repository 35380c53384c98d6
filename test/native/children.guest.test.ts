// Children that are born while a real device writes to this process's memory and reads from it.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { expectBytes, pattern, sameBytes } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const run = promisify(execFile);
const setUp = rdmaSetUp(rdmaAddresses());
const KIB = 1024;
/** In slots, in buffers of the pool, and where the application has them. */
const LENGTHS = [64, 3000, 60 * KIB, 600 * KIB];
const CHILDREN = 6;

test('what is sent, received and exposed stays right, and a child that lives on holds nothing', async () => {
  const before = countVerbsObjects();
  const pair = await connectPair(setUp);
  const { client, server } = pair;
  const exposed = await server.expose(100 * KIB, { read: true, write: true });
  const remote = client.attach(exposed.descriptor);
  let sent = 0;
  let received = 0;
  let wrong = 0;
  server.onMessage((message) => {
    const n = received++;
    const expected = pattern(LENGTHS[n % LENGTHS.length]!, n);
    if (!sameBytes(message.data, expected)) wrong++;
    // Pages that were written to since a child was born are sent on from there.
    server.send(message.data).catch(() => {});
  });
  let echoes = 0;
  client.onMessage(({ data }) => {
    const n = echoes++;
    if (!sameBytes(data, pattern(LENGTHS[n % LENGTHS.length]!, n))) wrong++;
  });
  const exchange = async (): Promise<void> => {
    for (const length of LENGTHS) {
      await client.send(pattern(length, sent++));
      await remote.write(0, pattern(100 * KIB, sent));
      expectBytes(await remote.read(0, 100 * KIB), pattern(100 * KIB, sent));
    }
  };

  // It is there until the connections have gone.
  const sleeper = spawn('sleep', ['3600'], { stdio: 'ignore' });
  await once(sleeper, 'spawn');
  for (let n = 0; n < CHILDREN; n++) {
    const traffic = exchange();
    await run('true');
    await traffic;
  }
  const [{ stdout }] = await Promise.all([run(process.execPath, ['-p', '6 * 7']), exchange()]);
  expect(stdout.trim()).toBe('42');
  await until(() => echoes === sent);
  expect(received).toBe(sent);
  expect(wrong).toBe(0);

  await Promise.all([pair.clientTransport.close(), pair.serverTransport.close()]);
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
  expect(sleeper.exitCode).toBe(null);
  sleeper.kill();
  await once(sleeper, 'exit');
});
