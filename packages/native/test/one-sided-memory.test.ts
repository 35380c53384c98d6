// Longer than 300 lines: it is one list of faults. One-sided memory where devices fail, refuse, and are late; the contract itself is tested by the conformance suite.
// Longer than 300 lines because it is a list of faults, each of which is a few lines by itself.
import type { Connection, ExposedMemory, RemoteMemory } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { failure, outcomeOf, settled, turns } from '../../../test/support/expectations.js';
import { numbered, numberOf, pattern, sameBytes, take } from '../../../test/support/messages.js';
import { connectPair, type Pair } from '../../../test/support/pair.js';
import {
  AsyncEvent,
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../../../test/support/simulated-device.js';
import {
  errno,
  expectNothingLeft,
  simulatedPair,
  simulatedSetUp,
} from '../../../test/support/simulated-pair.js';
import { until } from '../../../test/support/until.js';

const LARGE = 1_000_000;

interface Shared {
  readonly owned: ExposedMemory;
  readonly remote: RemoteMemory;
}

async function share({ client, server }: Pair, bytes: number, atomic = true): Promise<Shared> {
  const owned = await server.expose(bytes, { read: true, write: true, atomic });
  const remote = client.attach(owned.descriptor);
  // With iWARP the first write asks the owner for memory with which all writes are confirmed.
  await remote.write(0, new Uint8Array(1));
  return { owned, remote };
}

function registeredBytes(connection: Connection): number {
  return (connection.stats() as { registeredBytes?: number }).registeredBytes as number;
}

await onSimulatedDevice('rxe', (device) => {
  test.each<Personality>(['rxe', 'mlx'])(
    'atomic operations over a device like %s work once the owner has memory to try one on',
    async (personality) => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const owned = await pair.server.expose(8, { read: true, atomic: true });
      const remote = pair.client.attach(owned.descriptor);
      device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
      await failure(remote.fetchAdd(0, 1n), 'ERR_VERBMQ_NO_BUFFERS');
      device.reset(personality);
      expect(await remote.fetchAdd(0, 1n)).toBe(0n);
      expect(await remote.compareAndSwap(0, 1n, 5n)).toBe(1n);
      await expectNothingLeft(device, pair);
    },
  );

  describe.each<Personality>(TESTED_PERSONALITIES)(
    'one-sided memory over a device like %s',
    (personality) => {
      const native = personality !== 'siw';

      test('is read and written by the devices alone', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 }); // none among what is counted
        const { owned, remote } = await share(pair, LARGE);
        const before = {
          sends: device.count('sends'),
          reads: device.count('reads'),
          writes: device.count('writes'),
        };
        await remote.write(0, pattern(LARGE, 1));
        expect(sameBytes(owned.data, pattern(LARGE, 1))).toBe(true);
        expect(sameBytes(await remote.read(0, LARGE), owned.data)).toBe(true);
        // Four pieces each, and not one message: nothing of the owner has run.
        expect(device.count('writes') - before.writes).toBe(4);
        // With iWARP a read confirms the write.
        expect(device.count('reads') - before.reads).toBe(native ? 4 : 5);
        expect(device.count('sends')).toBe(before.sends);
        await expectNothingLeft(device, pair);
      });

      test('does not make a peer that has stopped seem alive', async () => {
        resetForTest(device, personality);
        const patient = { heartbeatIntervalMs: 0 };
        const impatient = { heartbeatIntervalMs: 50, peerTimeoutMs: 300 };
        const pair = await connectPair(simulatedSetUp(device), { client: impatient, server: patient });
        const { remote } = await share(pair, 64);
        await turns();
        // No code of the peer's finds what comes, while its device answers.
        device.hold('receive-completions');
        let reads = 0;
        const reading = async (): Promise<void> => {
          for (;;) {
            await remote.read(0, 64);
            reads++;
          }
        };
        const over = settled(reading());
        expect((await pair.client.closed).error).toMatchObject({ code: 'ERR_VERBMQ_PEER_TIMEOUT' });
        expect(reads).toBeGreaterThan(10);
        await over;
        device.release('receive-completions');
      });

      test('keeps no buffer of an operation whose memory was transferred meanwhile', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const { remote } = await share(pair, 100_000);
        await remote.read(0, 100_000);
        const before = registeredBytes(pair.client);
        for (let round = 0; round < 50; round++) {
          const target = new Uint8Array(100_000);
          const reading = remote.read(0, target);
          structuredClone(target.buffer, { transfer: [target.buffer] });
          await expect(reading).rejects.toThrow(TypeError);
        }
        expect(registeredBytes(pair.client)).toBe(before);
        const writeAll = async (): Promise<number> => {
          const waiting = Array.from({ length: 80 }, () => new Uint8Array(100_000));
          const writing = waiting.map((data) => outcomeOf(() => remote.write(0, data)));
          for (const { buffer } of waiting) structuredClone(buffer, { transfer: [buffer] });
          // Those that the device had been given are done, the others are not.
          expect(new Set(await Promise.all(writing))).toEqual(new Set(['ok', TypeError]));
          return registeredBytes(pair.client);
        };
        const most = await writeAll();
        for (let round = 0; round < 5; round++) expect(await writeAll()).toBe(most);
        await remote.write(0, new Uint8Array(100_000));
        await expectNothingLeft(device, pair);
      });

      test(
        native ? 'has atomic operations of the devices' : 'has atomic operations of the owner',
        async () => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device);
          expect(pair.client.capabilities.atomics).toBe(native ? 'native' : 'emulated');
          const { remote } = await share(pair, 64);
          await Promise.all(Array.from({ length: 100 }, () => remote.fetchAdd(8, 1n)));
          expect(await remote.compareAndSwap(8, 100n, 7n)).toBe(100n);
          // One more to find out in which order the device answers.
          expect(device.count('atomics')).toBe(native ? 102 : 0);
          await expectNothingLeft(device, pair);
        },
      );

      if (native) {
        test.each([0, 1])(
          "atomic results are the host's, whatever order the device gives them in (%i)",
          async (swapped) => {
            resetForTest(device, personality);
            device.set('atomic_results_big_endian', swapped);
            const pair = await simulatedPair(device);
            const { owned, remote } = await share(pair, 16);
            const word = new BigUint64Array(owned.data.buffer, owned.data.byteOffset, 2);
            word.set([0x1122_3344_5566_7788n, 5n]);
            expect(await remote.fetchAdd(0, 1n)).toBe(0x1122_3344_5566_7788n);
            expect(await remote.compareAndSwap(8, 5n, 258n)).toBe(5n);
            expect(await remote.compareAndSwap(8, 5n, 6n)).toBe(258n);
            expect([...word]).toEqual([0x1122_3344_5566_7789n, 258n]);
            await expectNothingLeft(device, pair);
          },
        );
      }

      test('is registered as long as it is exposed, and counted', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        await share(pair, 8); // what is registered once, is
        const idle = registeredBytes(pair.server);
        const regions = device.live('mr');
        const pieces = await Promise.all(Array.from({ length: 5 }, () => share(pair, 10_000)));
        expect(registeredBytes(pair.server)).toBe(idle + 50_000);
        expect(device.live('mr')).toBe(regions + 5);
        const [first] = pieces;
        const revoking = first!.owned.revoke();
        // The access has ended before anything is awaited.
        expect(device.live('mr')).toBe(regions + 4);
        await revoking;
        await Promise.all(pieces.map(({ owned }) => owned.revoke()));
        expect(registeredBytes(pair.server)).toBe(idle);
        await expectNothingLeft(device, pair);
      });

      test('is exposed and revoked again and again, and nothing grows', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const kept = await share(pair, 8);
        const regions = device.live('mr');
        const old: RemoteMemory[] = [];
        for (let n = 0; n < 200; n++) {
          const { owned, remote } = await share(pair, 100);
          await remote.write(0, pattern(100, n));
          expect(sameBytes(owned.data, pattern(100, n))).toBe(true);
          await owned.revoke();
          old.push(remote);
        }
        await kept.remote.write(0, pattern(8));
        await until(() => device.live('mr') <= regions + 2); // the buffers of the asking side
        // A place that is used again does not open what had been there before.
        await share(pair, 100);
        await failure(old[0]!.read(0, 1), 'ERR_VERBMQ_REMOTE_ACCESS');
        await expectNothingLeft(device, pair);
      });

      test.each(['write', 'read'] as const)(
        'a key is dead for the device as soon as revoke() was called (%s)',
        async (what) => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device);
          const { owned, remote } = await share(pair, 100_000);
          owned.data.fill(7);
          const target = new Uint8Array(100_000);
          // Both in one turn of the loop: nobody has told the client yet, so the device itself has to refuse.
          const revoking = owned.revoke();
          const operation = what === 'write' ? remote.write(0, pattern(100_000)) : remote.read(0, target);
          await failure(operation, 'ERR_VERBMQ_REMOTE_ACCESS', 'ERR_VERBMQ_CONNECTION_LOST');
          await revoking;
          expect((await pair.server.closed).error?.code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
          expect(owned.data.every((byte) => byte === 7)).toBe(true);
          expect(target.every((byte) => byte === 0)).toBe(true);
          await expectNothingLeft(device, pair);
        },
      );

      test('an operation on its way when the access ends is refused by the device', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const { owned, remote } = await share(pair, LARGE);
        device.hold('hardware');
        const writing = failure(
          remote.write(0, pattern(LARGE)),
          'ERR_VERBMQ_REMOTE_ACCESS',
          'ERR_VERBMQ_CONNECTION_LOST',
        );
        await until(() => device.held('hardware') > 0);
        const revoking = owned.revoke();
        device.release('hardware');
        const error = await writing;
        expect(error.outcome).toBe('unknown');
        // With iWARP a device is not told why its peer has ended the connection.
        if (native) expect(error.code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
        await revoking;
        expect(sameBytes(owned.data, new Uint8Array(LARGE))).toBe(true);
        // The owner's device has reported it.
        expect((await pair.server.closed).error?.code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
        await expectNothingLeft(device, pair);
      });

      test.each(Object.entries(CompletionStatus))(
        'a work request that fails (%s) ends its connection, and tells what nobody knows',
        async (name, status) => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device);
          const { remote } = await share(pair, 1000);
          device.hold('hardware');
          const reading = failureOf(remote.read(0, 1000));
          const writing = failureOf(remote.write(0, new Uint8Array(1000)));
          await until(() => device.held('hardware') >= 2);
          device.failWork(status);
          device.release('hardware');
          const [read, written] = await Promise.all([reading, writing]);
          expect(read.outcome).toBeUndefined();
          expect(written.outcome).toBe('unknown');
          if (name === 'remoteAccess') expect(read.code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
          expect((await pair.client.closed).error).toBeDefined();
          await pair.server.closed;
          await expectNothingLeft(device, pair);
        },
      );

      test.each([-1, 0, 100_000])(
        'an abort in the middle, with a flush after %i µs (-1: never)',
        async (delay) => {
          resetForTest(device, personality);
          device.set('flush_delay_us', delay);
          const pair = await simulatedPair(device);
          const { remote } = await share(pair, LARGE);
          device.hold('hardware');
          const target = new Uint8Array(LARGE);
          const pending = [
            ...Array.from({ length: 200 }, () => failureOf(remote.write(0, new Uint8Array(100)))),
            failureOf(remote.read(0, target)),
            failureOf(remote.read(0, LARGE)),
          ];
          await until(() => device.held('hardware') > 0);
          pair.client.abort('in the middle');
          for (const each of pending) expect((await each).code).toBe('ERR_VERBMQ_ABORTED');
          await pair.client.closed;
          device.release('hardware');
          await pair.server.closed;
          expect(target.every((byte) => byte === 0)).toBe(true);
          await expectNothingLeft(device, pair);
        },
      );

      test('a close waits for what is pending', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const { remote } = await share(pair, LARGE);
        device.hold('hardware');
        const reading = remote.read(0, LARGE);
        const adding = remote.fetchAdd(0, 1n);
        const closing = pair.client.close();
        await turns();
        device.release('hardware');
        expect((await reading).byteLength).toBe(LARGE);
        expect(await adding).toBe(0n);
        expect(await closing).toMatchObject({ graceful: true });
        await expectNothingLeft(device, pair);
      });

      test('memory that cannot be registered is an error with a remedy, and the connection goes on', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        device.failCall('ibv_reg_mr', errno.ENOMEM, { times: 2 });
        const error = await failure(pair.server.expose(1000, { read: true }), 'ERR_VERBMQ_NO_BUFFERS');
        expect(error.message).toMatch(/1000 bytes cannot be registered.*; .*close connections/);
        await failure(pair.server.expose(1000, { read: true }), 'ERR_VERBMQ_NO_BUFFERS');
        const { remote } = await share(pair, LARGE);
        device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
        await failure(remote.read(0, LARGE), 'ERR_VERBMQ_NO_BUFFERS');
        await failure(remote.write(0, new Uint8Array(LARGE)), 'ERR_VERBMQ_NO_BUFFERS');
        resetForTest(device, personality);
        expect((await remote.read(0, LARGE)).byteLength).toBe(LARGE);
        await pair.client.send(numbered(5));
        expect((await take(pair.server, 1)).map(numberOf)).toEqual([5]);
        await expectNothingLeft(device, pair);
      });

      test('without memory for all of them, operations wait for those before them', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const { remote } = await share(pair, LARGE);
        device.set('memlock_bytes', device.live('pinned-bytes') + 2.5 * LARGE);
        const targets = Array.from({ length: 20 }, () => new Uint8Array(LARGE));
        await Promise.all(targets.map((target) => remote.read(0, target)));
        await expectNothingLeft(device, pair);
      });

      test('exposures are bounded', async () => {
        resetForTest(device, personality);
        device.set('max_mr', 100);
        const pair = await simulatedPair(device);
        const outcomes = await Promise.all(
          Array.from({ length: 120 }, () => outcomeOf(() => pair.server.expose(8, { read: true }))),
        );
        expect(outcomes.filter((outcome) => outcome === 'ok').length).toBe(96);
        expect(outcomes.filter((outcome) => outcome === 'ERR_VERBMQ_NO_BUFFERS').length).toBe(24);
        await failure(pair.server.expose(2 ** 32, { read: true }), 'ERR_VERBMQ_NO_BUFFERS');
        await expectNothingLeft(device, pair);
      });

      test('a device that goes away in the middle of operations', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const { remote } = await share(pair, LARGE);
        device.hold('hardware');
        const pending = [remote.read(0, LARGE), remote.write(0, new Uint8Array(8))].map(failureOf);
        await until(() => device.held('hardware') > 0);
        device.raiseAsyncEvent(AsyncEvent.deviceFatal);
        for (const each of pending) expect((await each).code).toBe('ERR_VERBMQ_CONNECTION_LOST');
        device.release('hardware');
        await expectNothingLeft(device, pair);
      });

      test('an application that takes away the memory to be filled harms only itself', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const { remote } = await share(pair, 1000);
        const target = new Uint8Array(1000);
        const reading = settled(remote.read(0, target).catch((error: unknown) => Promise.reject(error)));
        structuredClone(target, { transfer: [target.buffer] });
        expect(await reading).toBeOneOf([TypeError, RangeError]);
        expect((await remote.read(0, 1000)).byteLength).toBe(1000);
        await expectNothingLeft(device, pair);
      });
    },
  );
});

/** How an operation failed that must. */
function failureOf(operation: Promise<unknown>): ReturnType<typeof failure> {
  return failure(
    operation,
    'ERR_VERBMQ_ABORTED',
    'ERR_VERBMQ_CONNECTION_LOST',
    'ERR_VERBMQ_DEVICE',
    'ERR_VERBMQ_PEER_ABORTED',
    'ERR_VERBMQ_REMOTE_ACCESS',
  );
}
