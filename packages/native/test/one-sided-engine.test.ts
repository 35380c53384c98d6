// What the engine does with registered memory and one-sided operations, on the simulated device.
import { describe, expect, test } from 'vitest';
import { pattern, sameBytes } from '../../../test/support/messages.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../../../test/support/simulated-device.js';
import { errno } from '../../../test/support/simulated-pair.js';
import { until } from '../../../test/support/until.js';
import { EventKind, type MemoryRegistration, MemoryUse, SubmissionKind } from '../src/binding.js';
import { type RawEnd, rawPair } from './raw-ends.js';

interface Memory extends MemoryRegistration {
  readonly data: Uint8Array<ArrayBuffer>;
}

function register(end: RawEnd, bytes: number, uses: number): Memory {
  const data = new Uint8Array(bytes);
  return { data, ...end.engine.registerMemory(end.handle, data.buffer, 0, bytes, uses) };
}

/** An operation of `end` on all of `remote`, or on `bytes` of it from its start. */
function operate(
  end: RawEnd,
  kind: 5 | 6 | 7 | 8,
  token: number,
  local: Memory,
  remote: Memory,
  bytes = remote.data.byteLength,
  values: { operand?: bigint; swap?: bigint } = {},
): void {
  end.engine.submitOperation(end.handle, {
    kind,
    token,
    region: local.region,
    offset: 0,
    bytes,
    remoteAddress: remote.address,
    rkey: remote.rkey,
    ...values,
  });
}

const tokens = async (end: RawEnd, count: number): Promise<number[]> =>
  (await end.saw(EventKind.operationDone, count)).map(([, token]) => token);

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)(
    'one-sided operations on a device like %s',
    (personality) => {
      test('reads and writes of any length, in order, from both sides at once', async () => {
        resetForTest(device, personality);
        const { client, server } = await rawPair(device);
        for (const [here, there] of [
          [client, server],
          [server, client],
        ] as const) {
          const lengths = [1, 4096, 262_144, 262_145, 5_000_000];
          for (const [index, length] of lengths.entries()) {
            const source = register(there, length, MemoryUse.remoteRead);
            const sink = register(here, length, MemoryUse.sink);
            const target = register(there, length, MemoryUse.remoteWrite);
            source.data.set(pattern(length, index));
            operate(here, SubmissionKind.read, 2 * index, sink, source);
            await tokens(here, 2 * index + 1);
            expect(sameBytes(sink.data, source.data)).toBe(true);
            operate(here, SubmissionKind.write, 2 * index + 1, sink, target);
            await tokens(here, 2 * index + 2);
            expect(sameBytes(target.data, source.data)).toBe(true);
          }
          expect(await tokens(here, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        }
      });

      test.each([1, 4, 16])(
        'never are more reads in flight than %i, which both devices allow',
        async (depth) => {
          resetForTest(device, personality);
          device.set('max_rd_atomic', depth);
          // A device that gets more than its peer serves ends the connection; one that is held back shows how many it has.
          const { client, server } = await rawPair(device);
          const source = register(server, 8_000_000, MemoryUse.remoteRead);
          const sink = register(client, 8_000_000, MemoryUse.sink);
          source.data.set(pattern(8_000_000));
          const before = device.calls('ibv_post_send');
          device.hold('send-completions');
          operate(client, SubmissionKind.read, 1, sink, source);
          for (let token = 2; token < 40; token++)
            operate(client, SubmissionKind.read, token, sink, source, 1);
          await until(
            () => device.calls('ibv_post_send') - before >= depth && device.held('send-completions') >= depth,
          );
          expect(device.calls('ibv_post_send') - before).toBe(depth);
          device.release('send-completions');
          expect(await tokens(client, 39)).toEqual(Array.from({ length: 39 }, (_, n) => n + 1));
          expect(sameBytes(sink.data, source.data)).toBe(true);
        },
      );

      test('a send that completes while a read before it is on its way does not complete the read', async () => {
        resetForTest(device, personality);
        device.set('read_us', 100_000);
        const { client, server } = await rawPair(device);
        const source = register(server, 1000, MemoryUse.remoteRead);
        const sink = register(client, 1000, MemoryUse.sink);
        source.data.fill(7);
        operate(client, SubmissionKind.read, 1, sink, source);
        // More than one of these asks for a completion.
        for (let slot = 0; slot < 40; slot++) client.engine.submitSend(client.handle, slot, 8);
        await tokens(client, 1);
        expect(sink.data.every((byte) => byte === 7)).toBe(true);
      });

      test('messages pass beside many operations', async () => {
        resetForTest(device, personality);
        device.set('read_us', 2000);
        const { client, server } = await rawPair(device);
        const source = register(server, 1_000_000, MemoryUse.remoteRead);
        const sink = register(client, 1_000_000, MemoryUse.sink);
        for (let token = 0; token < 100; token++)
          operate(client, SubmissionKind.read, token, sink, source, 1000);
        for (let slot = 0; slot < 20; slot++) client.engine.submitSend(client.handle, slot, 100);
        await server.saw(EventKind.message, 20);
        expect(client.events.filter(([kind]) => kind === EventKind.operationDone).length).toBeLessThan(100);
        await tokens(client, 100);
      });

      if (personality !== 'siw') {
        test('atomic operations answer with the value before', async () => {
          resetForTest(device, personality);
          const { client, server } = await rawPair(device);
          const counter = register(server, 8, MemoryUse.remoteAtomic);
          const result = register(client, 8, MemoryUse.sink);
          const before = (): bigint => new BigUint64Array(result.data.buffer)[0]!;
          operate(client, SubmissionKind.fetchAdd, 1, result, counter, 8, { operand: 2n ** 63n + 5n });
          await tokens(client, 1);
          expect(before()).toBe(0n);
          operate(client, SubmissionKind.compareAndSwap, 2, result, counter, 8, {
            operand: 2n ** 63n + 5n,
            swap: 7n,
          });
          await tokens(client, 2);
          expect(before()).toBe(2n ** 63n + 5n);
          expect(new BigUint64Array(counter.data.buffer)[0]).toBe(7n);
        });
      }

      test('memory that is deregistered while it is read into stays until the read is complete', async () => {
        resetForTest(device, personality);
        const { client, server } = await rawPair(device);
        const source = register(server, 1_000_000, MemoryUse.remoteRead);
        const sink = register(client, 1_000_000, MemoryUse.sink);
        source.data.set(pattern(1_000_000));
        const regions = device.live('mr');
        device.hold('hardware');
        operate(client, SubmissionKind.read, 1, sink, source);
        client.engine.deregisterMemory(client.handle, sink.region);
        expect(device.live('mr')).toBe(regions);
        device.release('hardware');
        await tokens(client, 1);
        expect(sameBytes(sink.data, source.data)).toBe(true);
        await until(() => device.live('mr') === regions - 1);
      });

      test('a key opens nothing once its memory is deregistered, and nothing on another connection', async () => {
        resetForTest(device, personality);
        for (const forge of ['deregistered', 'of another connection', 'not for reading'] as const) {
          const { client, server } = await rawPair(device);
          const other = await rawPair(device);
          const owner = forge === 'of another connection' ? other.server : server;
          const uses = forge === 'not for reading' ? MemoryUse.remoteWrite : MemoryUse.remoteRead;
          const source = register(owner, 1000, uses);
          const sink = register(client, 1000, MemoryUse.sink);
          if (forge === 'deregistered') owner.engine.deregisterMemory(owner.handle, source.region);
          source.data.fill(1);
          operate(client, SubmissionKind.read, 1, sink, source);
          await client.saw(EventKind.closed);
          // An iWARP device is only told that the connection has ended.
          expect(client.failure?.reason).toBe(personality === 'siw' ? 'lost' : 'remote-access');
          expect(sink.data.every((byte) => byte === 0)).toBe(true);
          expect(client.events.some(([kind]) => kind === EventKind.operationDone)).toBe(false);
        }
      });

      test('what is out of the local memory is never posted', async () => {
        resetForTest(device, personality);
        const { client, server } = await rawPair(device);
        const source = register(server, 1000, MemoryUse.remoteRead);
        const sink = register(client, 999, MemoryUse.sink);
        operate(client, SubmissionKind.read, 1, sink, source, 1000);
        await client.saw(EventKind.closed);
        expect(client.failure?.reason).toBe('verbs');
        expect(device.count('reads')).toBe(0);
      });

      test('what is registered is counted, and all of it goes with the connection', async () => {
        resetForTest(device, personality);
        const { client, server } = await rawPair(device);
        const { bytes, regions } = client.engine.native.memoryTotals();
        register(client, 100_000, MemoryUse.sink);
        const removed = register(client, 50_000, MemoryUse.remoteRead);
        expect(client.engine.native.memoryTotals()).toEqual({ bytes: bytes + 150_000, regions: regions + 2 });
        client.engine.deregisterMemory(client.handle, removed.region);
        expect(client.engine.native.memoryTotals()).toEqual({ bytes: bytes + 100_000, regions: regions + 1 });
        client.engine.native.destroy(client.handle);
        await Promise.all([client.saw(EventKind.closed), server.saw(EventKind.closed)]);
        expect(client.engine.native.memoryTotals()).toEqual({ bytes: 0, regions: 0 });
        await until(() => device.live('mr') === 0);
      });

      test.each([
        [errno.ENOMEM, 'ERR_VERBMQ_NO_BUFFERS'],
        [errno.EPERM, 'ERR_VERBMQ_UNAVAILABLE'],
      ])('registration that fails (%i) is an error, and the connection goes on', async (number, code) => {
        resetForTest(device, personality);
        const { client, server } = await rawPair(device);
        device.failCall('ibv_reg_mr', number);
        expect(() => register(client, 1000, MemoryUse.sink)).toThrow(expect.objectContaining({ code }));
        client.engine.submitSend(client.handle, 0, 5);
        await server.saw(EventKind.message);
      });
    },
  );
});
