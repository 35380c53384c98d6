// Processes and worker threads that end in the middle of traffic, and children that are born in it.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { numbered, numberOf, take } from '../support/messages.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const run = promisify(execFile);
const talker = fileURLToPath(new URL('./children/talker.mjs', import.meta.url));
const quitter = fileURLToPath(new URL('./children/quitter.mjs', import.meta.url));
const host = '127.0.0.1';

/** What a process leaves to the system when it ends in the middle of everything is no leak. */
const environment = { ...process.env, ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:detect_leaks=0` };

await onSimulatedDevice('rxe', (device) => {
  const library = device.libraries.ibverbs;

  describe('a process in the middle of traffic', () => {
    test.each([
      ['exit', { code: 0, signal: null }],
      ['abort', { code: 0, signal: null }],
      ['close', { code: 0, signal: null }],
      ['throw', { code: 1, signal: null }],
    ])('ends as Node processes do (%s)', async (ending, expected) => {
      const child = spawn(process.execPath, [talker, ending, host, library], {
        stdio: 'ignore',
        env: environment,
      });
      const [code, signal] = await once(child, 'exit');
      expect({ code, signal }).toEqual(expected);
    });
  });

  test('a process that gives up all that it had lives until it is told', async () => {
    const { stdout } = await run(process.execPath, [quitter, library, device.control], { env: environment });
    expect(stdout).toBe('ERR_VERBMQ_CONNECT_TIMEOUT\n');
  });

  describe.each<Personality>(TESTED_PERSONALITIES)('a worker thread over a device like %s', (personality) => {
    test.each(['terminated', 'exit', 'abort', 'close', 'throw'])(
      'ends in the middle of traffic (%s)',
      async (how) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const before = JSON.stringify(device.leftOver());
        for (let round = 0; round < 3; round++) {
          device.set('jitter_seed', round);
          device.set('completion_jitter_us', 200);
          const ending = how === 'terminated' ? 'forever' : how;
          const worker = new Worker(talker, { workerData: [ending, host, library] });
          const failed = new Promise((resolve) => worker.once('error', resolve));
          const ended = new Promise((resolve) => worker.once('exit', resolve));
          await new Promise((resolve) => worker.once('message', resolve));
          if (how === 'terminated') await worker.terminate();
          if (how === 'throw') expect(await failed).toMatchObject({ message: 'thrown on purpose' });
          await ended;
          // This thread's connection goes on as if nothing had been.
          await pair.client.send(numbered(round));
          expect((await take(pair.server, 1)).map(numberOf)).toEqual([round]);
        }
        await until(() => JSON.stringify(device.leftOver()) === before);
        await expectNothingLeft(device, pair);
      },
    );
  });

  test('children are born while memory is registered and messages flow', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device);
    const receiving = take(pair.server, 600);
    const children = [];
    for (let n = 0; n < 600; n++) {
      if (n % 200 === 0) children.push(run('true'), run(process.execPath, ['-e', '0']));
      await pair.client.send(numbered(n, 2000));
    }
    expect((await receiving).map(numberOf)).toEqual(Array.from({ length: 600 }, (_, n) => n));
    await Promise.all(children);
    await expectNothingLeft(device, pair);
  });
});
