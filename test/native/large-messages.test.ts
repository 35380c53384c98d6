// The order of large and small messages, their windows, and the memory that they take. Longer than 300 lines because it is a list, of which each is a few lines.
import type { Connection, Message } from '@verbmq/core';
import type { RdmaConnectionStats, RdmaTransportStats } from '@verbmq/native';
import { describe, expect, test, vi } from 'vitest';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, pattern, sameBytes, take, takeAll } from '../support/messages.js';
import { nextConnection } from '../support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const KIB = 1024;
/** Copied by `send`, and lent to the device: the two ways into registered memory. */
const LENGTHS = [60 * KIB, 600 * KIB];

await onSimulatedDevice('rxe', (device) => {
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

  describe.each<Personality>(TESTED_PERSONALITIES)('large messages over a device like %s', (personality) => {
    test('small and large messages arrive in the order in which they were sent', async () => {
      resetForTest(device, personality);
      device.set('read_us', 300);
      device.set('completion_jitter_us', 300);
      const pair = await simulatedPair(device);
      const lengths = upTo(300).map((n) => (n % 7 === 0 ? 5000 + 977 * n : n % 11 === 0 ? 300 * KIB : 4));
      const receiving = take(pair.server, lengths.length);
      await Promise.all(lengths.map((length, n) => pair.client.send(numbered(n, length))));
      const received = await receiving;
      expect(received.map(numberOf)).toEqual(upTo(300));
      expect(received.map(({ byteLength }) => byteLength)).toEqual(lengths);
      await expectNothingLeft(device, pair);
    });

    test('a read that takes long holds up neither heartbeats nor the other direction', async () => {
      resetForTest(device, personality);
      device.set('read_us', 1_600_000);
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 150, peerTimeoutMs: 700 });
      const large = take(pair.server, 1);
      await pair.client.send(numbered(1, 100 * KIB));
      const small = take(pair.client, 100);
      for (const n of upTo(100)) await pair.server.send(numbered(n));
      expect((await small).map(numberOf)).toEqual(upTo(100));
      expect(pair.server.stats().messagesReceived).toBe(0);
      expect(numberOf((await large)[0]!)).toBe(1);
      await expectNothingLeft(device, pair);
    });

    test('crossed traffic of many connections gets through little memory for all of them', async () => {
      resetForTest(device, personality);
      device.set('completion_jitter_us', 200);
      const largeMemoryTotalBytes = 200 * KIB;
      const pair = await simulatedPair(device, { largeMemoryTotalBytes });
      const connections = [pair];
      for (let n = 1; n < 8; n++) {
        const accepted = nextConnection(pair.listener);
        const client = await pair.clientTransport.connect(pair.listener.url);
        connections.push({ ...pair, client, server: await accepted });
      }
      const lengths = upTo(20).map((n) => 5000 + (n % 7) * 12_000);
      let most = 0;
      const exchange = async (from: Connection, to: Connection): Promise<void> => {
        const receiving = take(to, lengths.length);
        for (const [n, length] of lengths.entries()) {
          await from.send(numbered(n, length));
          for (const transport of [pair.clientTransport, pair.serverTransport]) {
            const { largeMemoryInBytes, largeMemoryOutBytes } = transport.stats() as RdmaTransportStats;
            most = Math.max(most, largeMemoryInBytes, largeMemoryOutBytes);
          }
        }
        expect((await receiving).map(numberOf)).toEqual(upTo(lengths.length));
      };
      await Promise.all(
        connections.flatMap(({ client, server }) => [exchange(client, server), exchange(server, client)]),
      );
      expect(most).toBeGreaterThan(largeMemoryTotalBytes / 2);
      expect(most).toBeLessThanOrEqual(largeMemoryTotalBytes);
      await expectNothingLeft(device, pair);
    });

    test.each([
      ['is still reading', 100_000],
      ['has read', 0],
    ])(
      'a message goes in the memory of another connection that its peer %s, though nobody looks there',
      async (_, readMicros) => {
        resetForTest(device, personality);
        device.set('read_us', readMicros);
        const pair = await simulatedPair(device, { largeMemoryTotalBytes: 64 * KIB });
        const accepted = nextConnection(pair.listener);
        const second = await pair.clientTransport.connect(pair.listener.url);
        const server = await accepted;

        const first = take(pair.server, 1);
        await pair.client.send(numbered(1, 60 * KIB));
        if (readMicros === 0) await first;
        const receiving = take(server, 1);
        await second.send(numbered(2, 60 * KIB));
        expect((await receiving).map(numberOf)).toEqual([2]);
        expect((await first).map(numberOf)).toEqual([1]);

        // As soon as the client knows that it was read, a lease elsewhere may have that memory too.
        const lease = await vi.waitFor(() => pair.client.allocate(60 * KIB));
        lease.release();
        await expectNothingLeft(device, pair);
      },
      10_000,
    );

    test('crossed traffic of large messages gets through the smallest windows', async () => {
      resetForTest(device, personality);
      device.set('completion_jitter_us', 200);
      const pair = await simulatedPair(device, {
        receiveWindowBytes: 64 * KIB,
        receiveSlots: 4,
        sendSlots: 4,
        highWaterMarkBytes: 1,
      });
      const lengths = upTo(60).map((n) => 5000 + (n % 7) * 40_000);
      const crossing = [pair.client, pair.server].map(async (from) => {
        for (const [n, length] of lengths.entries()) await from.send(numbered(n, length));
      });
      const received = await Promise.all([take(pair.client, 60), take(pair.server, 60)]);
      await Promise.all(crossing);
      for (const each of received) expect(each.map((bytes) => bytes.byteLength)).toEqual(lengths);
      expect(device.count('rnr-answers')).toBe(0);
      await expectNothingLeft(device, pair);
    });

    test('as much is under way at once as the window takes', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const receiving = take(pair.server, 4);
      // All in one turn, in which the peer reads none.
      const sent = upTo(5).map((n) => pair.client.trySend(numbered(n, 1024 * KIB)));
      expect(sent).toEqual([true, true, true, true, false]);
      expect((await receiving).map(numberOf)).toEqual(upTo(4));
      await expectNothingLeft(device, pair);
    });

    test('a receiver that does not read holds no more than its window', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { receiveWindowBytes: 300 * KIB });
      const sends = upTo(50).map((n) => pair.client.send(numbered(n, 70 * KIB)));
      await until(() => pair.server.stats().messagesQueued === 4 && pair.client.stats().bytesBuffered === 0);
      expect(pair.client.stats()).toMatchObject({ sendsWaiting: 46 });
      expect((await take(pair.server, 50)).map(numberOf)).toEqual(upTo(50));
      await Promise.all(sends);
      await expectNothingLeft(device, pair);
    });

    test('a close from both sides in the middle of large messages delivers all of them', async () => {
      resetForTest(device, personality);
      device.set('read_us', 1000);
      device.set('completion_jitter_us', 300);
      for (const both of [false, true]) {
        const pair = await simulatedPair(device);
        const lengths = [600 * KIB, 4, 60 * KIB, 2000 * KIB, 5];
        const receiving = [takeAll(pair.client), takeAll(pair.server)];
        const sends = lengths.flatMap((length) =>
          [pair.client, pair.server].map((from) => from.send(pattern(length))),
        );
        const closing = both
          ? [pair.client.close(), pair.server.close()]
          : [pair.client.close(), pair.server.closed];
        for (const { graceful } of await Promise.all(closing)) expect(graceful).toBe(true);
        await Promise.all(sends);
        for (const received of await Promise.all(receiving)) {
          expect(received.map(({ byteLength }) => byteLength)).toEqual(lengths);
        }
        await expectNothingLeft(device, pair);
      }
    });

    test('a device that reads nothing, or whose peer serves no reads, carries small messages alone', async () => {
      resetForTest(device, personality);
      device.set('max_rd_atomic', 0);
      const pair = await simulatedPair(device);
      for (const connection of [pair.client, pair.server]) {
        expect(connection.capabilities.largeMessages).toBe('none');
        expect(connection.maxMessageBytes).toBe(4096 - 16);
      }
      await pair.client.send(pattern(4080));
      expect(sameBytes((await take(pair.server, 1))[0]!, pattern(4080))).toBe(true);
      await failure(pair.client.send(pattern(4081)), 'ERR_VERBMQ_MESSAGE_TOO_LARGE');
      await expectNothingLeft(device, pair);
    });
  });

  describe.each<Personality>(TESTED_PERSONALITIES)(
    'memory of large messages over a device like %s',
    (personality) => {
      test('from a leased buffer to the handler no byte is copied', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const length = 500 * KIB;
        /** The buffer is lent again and again: always the same registered memory on both sides. */
        const sent: Uint8Array[] = [];
        const seen: Uint8Array[] = [];
        pair.server.onMessage(({ data }) => seen.push(data));
        async function sendLeased(fill: number): Promise<void> {
          const lease = pair.client.allocate(length);
          sent.push(lease.data.fill(fill));
          await pair.client.send(lease);
        }
        await sendLeased(1);
        await until(() => seen.length === 1 && pair.client.stats().bytesBuffered === 0);
        const registered = device.calls('ibv_reg_mr');

        // The sender's side: what changes in the lease's memory before the device reads it, arrives changed.
        device.hold('hardware');
        await sendLeased(2);
        await new Promise((resolve) => setImmediate(resolve));
        sent[1]!.fill(3);
        // The receiver's side: the device has written to the memory that the application saw before, when only the
        // device knows that it has.
        device.hold('send-completions');
        device.release('hardware');
        await until(() => device.count('reads') >= 4 && device.held('send-completions') > 0);
        await until(() => seen[0]![length - 1] === 3);
        expect(seen.length).toBe(1);
        device.release('send-completions');
        await until(() => seen.length === 2);
        expect(seen[1]!.every((byte) => byte === 3)).toBe(true);
        for (const views of [sent, seen]) {
          expect(views[1]!.buffer).toBe(views[0]!.buffer);
          expect(views[1]!.byteOffset).toBe(views[0]!.byteOffset);
        }
        expect(device.calls('ibv_reg_mr')).toBe(registered);
        await expectNothingLeft(device, pair);
      });

      test('retained messages keep their memory up to the limit, are copied beyond it, and stall nothing', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device, {
          largeMemoryBytes: 1024 * KIB,
          receiveWindowBytes: 512 * KIB,
        });
        const kept: { message: Message; inPlace: boolean }[] = [];
        pair.server.onMessage((message) => {
          const before = message.data.buffer;
          message.retain();
          kept.push({ message, inPlace: message.data.buffer === before });
        });
        for (const n of upTo(30)) await pair.client.send(numbered(n, 128 * KIB));
        await until(() => kept.length === 30);
        expect(kept.filter(({ inPlace }) => inPlace).length).toBe(8);
        expect(kept.map(({ message }) => numberOf(message.data))).toEqual(upTo(30));
        for (const { message } of kept.splice(0)) message.release();
        // The memory is there again.
        await pair.client.send(numbered(30, 128 * KIB));
        await until(() => kept.length === 1);
        expect(kept[0]?.inPlace).toBe(true);
        await expectNothingLeft(device, pair);
      });

      test('leases are bounded, and the bound is what is not sent', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device, { largeMemoryBytes: 256 * KIB });
        const leases = upTo(4).map(() => pair.client.allocate(64 * KIB));
        const allocate = (): void => void pair.client.allocate(64 * KIB);
        expect(allocate).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS', retryable: true }));
        expect(allocate).toThrow(/largeMemoryBytes/);
        // Messages that are not leased do not need that memory.
        await pair.client.send(pattern(300 * KIB));
        await pair.client.send(pattern(200 * KIB));
        leases[0]?.release();
        leases.push(pair.client.allocate(64 * KIB));
        const receiving = take(pair.server, 6);
        for (const lease of leases.slice(1)) await pair.client.send(lease);
        allocate();
        await receiving;
        await expectNothingLeft(device, pair);
      });

      test.each(LENGTHS)(
        'a sender that gets no memory for %i bytes fails that send alone',
        async (length) => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device);
          const receiving = take(pair.server, 2);
          device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
          await failure(pair.client.send(pattern(length)), 'ERR_VERBMQ_NO_BUFFERS');
          expect(() => pair.client.trySend(pattern(length))).toThrow(
            expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }),
          );
          expect(() => pair.client.allocate(length)).toThrow(
            expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }),
          );
          await pair.client.send(numbered(1));
          device.reset(personality);
          await pair.client.send(numbered(2, length));
          expect((await receiving).map(numberOf)).toEqual([1, 2]);
          await expectNothingLeft(device, pair);
        },
      );

      test('a receiver that gets no memory, and holds none, ends the connection with what to do about it', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const lease = pair.client.allocate(100 * KIB);
        device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
        await pair.client.send(lease);
        const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
        expect(server.error).toMatchObject({ code: 'ERR_VERBMQ_NO_BUFFERS' });
        expect(server.error?.message).toContain('configure fewer');
        expect(client.error).toMatchObject({ code: 'ERR_VERBMQ_PEER_ABORTED' });
        device.reset(personality);
        await expectNothingLeft(device, pair);
      });

      test('a receiver that gets no more memory goes on with what it has', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const leases = upTo(8).map(() => pair.client.allocate(300 * KIB));
        for (const [n, lease] of leases.entries()) lease.data.set(numbered(n));
        // Two buffers, and no third one.
        device.failCall('ibv_reg_mr', errno.ENOMEM, { skip: 2, times: -1 });
        const receiving = take(pair.server, 8);
        for (const lease of leases) await pair.client.send(lease);
        expect((await receiving).map(numberOf)).toEqual(upTo(8));
        device.reset(personality);
        await expectNothingLeft(device, pair);
      });

      test('memory that lies idle in one connection is there for another', async () => {
        resetForTest(device, personality);
        const first = await simulatedPair(device);
        const accepted = nextConnection(first.listener);
        const second = await first.clientTransport.connect(first.listener.url);
        await accepted;
        first.client.allocate(900 * KIB).release();
        const pinned = device.live('pinned-bytes');
        device.set('memlock_bytes', pinned + 100 * KIB);
        second.allocate(900 * KIB).release();
        expect(device.live('pinned-bytes')).toBeLessThanOrEqual(pinned + 100 * KIB);
        await expectNothingLeft(device, first);
      });
    },
  );

  test('what is registered for large messages is counted, and no more', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device);
    const registered = (connection: Connection): number =>
      (connection.stats() as RdmaConnectionStats).registeredBytes;
    const idle = registered(pair.client);
    const pinned = device.live('pinned-bytes');
    expect(pair.clientTransport.stats()).toMatchObject({ registeredBytes: idle, registeredRegions: 2 });
    const lease = pair.client.allocate(1000 * KIB);
    expect(registered(pair.client) - idle).toBe(device.live('pinned-bytes') - pinned);
    expect(registered(pair.client) - idle).toBe(1024 * KIB);
    expect(pair.clientTransport.stats()).toMatchObject({
      registeredBytes: idle + 1024 * KIB,
      registeredRegions: 3,
    });
    lease.release();
    await pair.client.close();
    expect(registered(pair.client)).toBe(0);
    await expectNothingLeft(device, pair);
  });
});
