// Large messages that wait for registered memory: whatever else holds it, each of them gets its turn.
import type { Connection, Message } from '@verbmq/core';
import type { RdmaTransportOptions } from '@verbmq/native';
import { expect, onTestFinished, test, vi } from 'vitest';
import { numbered, numberOf, take } from '../support/messages.js';
import { connectPair, nextConnection, type Pair } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const KIB = 1024;
/** As long as memory for one message of `LENGTH` bytes. */
const TOTAL = 64 * KIB;
const LENGTH = 60 * KIB;

await onSimulatedDevice('rxe', (device) => {
  async function second({
    clientTransport,
    listener,
  }: Pair): Promise<{ client: Connection; server: Connection }> {
    const accepted = nextConnection(listener);
    return { client: await clientTransport.connect(listener.url), server: await accepted };
  }

  /** Only the side that accepts has these options. */
  const pairWithReceiver = (server: RdmaTransportOptions): Promise<Pair> =>
    connectPair(simulatedSetUp(device), { server });

  test('a message before a lease does not wait for the memory of that lease', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { largeMemoryTotalBytes: TOTAL });
    const receiving = take(pair.server, 3);
    const lease = pair.client.allocate(LENGTH);
    lease.data.set(numbered(2));
    await Promise.all([
      pair.client.send(numbered(1, LENGTH)),
      pair.client.send(lease),
      pair.client.send(numbered(3, LENGTH)),
    ]);
    expect((await receiving).map(numberOf)).toEqual([1, 2, 3]);
    await expectNothingLeft(device, pair);
  });

  test('a message does not wait for leases of other connections, which the application may keep', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { largeMemoryTotalBytes: TOTAL });
    const other = await second(pair);
    const lease = other.client.allocate(LENGTH);
    const receiving = take(pair.server, 3);
    for (const n of [1, 2, 3]) await pair.client.send(numbered(n, LENGTH));
    expect((await receiving).map(numberOf)).toEqual([1, 2, 3]);
    lease.release();
    await expectNothingLeft(device, pair);
  });

  test('messages that are kept keep no other out, and no more is kept in place than there may be', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { largeMemoryTotalBytes: TOTAL });
    const other = await second(pair);
    const kept: { message: Message; inPlace: boolean }[] = [];
    for (const { server } of [pair, other]) {
      server.onMessage((message) => {
        const before = message.data.buffer;
        message.retain();
        kept.push({ message, inPlace: message.data.buffer === before });
      });
    }
    await pair.client.send(numbered(1, LENGTH));
    await until(() => kept.length === 1);
    await other.client.send(numbered(2, LENGTH));
    await until(() => kept.length === 2);
    await pair.client.send(numbered(3, LENGTH));
    await until(() => kept.length === 3);
    expect(kept.map(({ message }) => numberOf(message.data))).toEqual([1, 2, 3]);
    expect(kept.map(({ inPlace }) => inPlace)).toEqual([true, false, false]);
    for (const { message } of kept) message.release();
    await expectNothingLeft(device, pair);
  });

  test('a message that was only being read when there was no memory for the next one may be kept', async () => {
    resetForTest(device, 'rxe');
    const pair = await pairWithReceiver({ largeMemoryTotalBytes: TOTAL });
    const other = await second(pair);
    const numbers: number[] = [];
    for (const { server } of [pair, other]) {
      server.onMessage((message) => void numbers.push(numberOf(message.retain().data)));
    }
    device.hold('hardware');
    await Promise.all([pair.client.send(numbered(1, LENGTH)), other.client.send(numbered(2, LENGTH))]);
    device.release('hardware');
    await until(() => numbers.length === 2);
    await expectNothingLeft(device, pair);
  });

  test('a receiver that gets no memory beside the messages that it keeps says so', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device);
    const kept: Message[] = [];
    pair.server.onMessage((message) => void kept.push(message.retain()));
    const leases = [1, 2].map((n) => {
      const lease = pair.client.allocate(300 * KIB);
      lease.data.set(numbered(n));
      return lease;
    });
    // One buffer, and no second one.
    device.failCall('ibv_reg_mr', errno.ENOMEM, { skip: 1, times: -1 });
    device.hold('hardware');
    await Promise.all(leases.map((lease) => pair.client.send(lease)));
    device.release('hardware');
    expect((await pair.server.closed).error).toMatchObject({ code: 'ERR_VERBMQ_NO_BUFFERS' });
    expect(kept.map(({ data }) => numberOf(data))).toEqual([1]);
    device.reset('rxe');
    await expectNothingLeft(device, pair);
  });

  test.each<[string, RdmaTransportOptions, RdmaTransportOptions]>([
    ['sends', { largeMemoryTotalBytes: TOTAL }, {}],
    ['receives', {}, { largeMemoryTotalBytes: TOTAL }],
  ])(
    'a connection that %s large messages all the time leaves their turns to the others',
    async (_, client, server) => {
      resetForTest(device, 'rxe');
      const pair = await connectPair(simulatedSetUp(device), { client, server });
      const others = [await second(pair), await second(pair)];
      const arrived: number[] = [];
      for (const [n, connection] of [pair.server, ...others.map(({ server }) => server)].entries()) {
        connection.onMessage(() => void arrived.push(n));
      }
      const sends = Array.from({ length: 30 }, () => pair.client.send(numbered(0, LENGTH)));
      for (const { client } of others) sends.push(client.send(numbered(0, LENGTH)));
      await Promise.all(sends);
      await until(() => arrived.length === sends.length);
      // One was under way, and the next may have stood in line before the others came.
      expect(arrived.indexOf(1)).toBeLessThan(4);
      expect(arrived.indexOf(2)).toBeLessThan(4);
      await expectNothingLeft(device, pair);
    },
  );

  test('a message that needs nearly all memory gets its turn, though there is always room for shorter ones', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { largeMemoryTotalBytes: 2 * TOTAL });
    const others = [await second(pair), await second(pair)];
    let over = false;
    const busy = others.map(async ({ client, server }) => {
      server.onMessage(() => {});
      while (!over) await client.send(numbered(0, LENGTH));
    });
    const receiving = take(pair.server, 1);
    await pair.client.send(numbered(7, 2 * LENGTH));
    expect((await receiving).map(numberOf)).toEqual([7]);
    over = true;
    await Promise.all(busy);
    await expectNothingLeft(device, pair);
  });

  test('a message whose connection fails keeps no place in line', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { largeMemoryTotalBytes: 2 * TOTAL });
    const [first, last] = [await second(pair), await second(pair)];
    // The peer reads no more of these.
    pair.server.pause();
    pair.server.onMessage(() => {});
    for (const n of [1, 2, 3]) await pair.client.send(numbered(n, LENGTH));
    await until(
      () => pair.server.stats().messagesQueued === 2 && pair.client.stats().bytesBuffered === LENGTH,
    );
    const failing = first.client.send(numbered(4, 2 * LENGTH));
    const receiving = take(last.server, 1);
    const sending = last.client.send(numbered(5, LENGTH));
    expect(last.client.stats().sendsWaiting).toBe(1);
    first.client.abort('enough');
    await failing.catch(() => {});
    await sending;
    pair.server.resume();
    expect((await receiving).map(numberOf)).toEqual([5]);
    await expectNothingLeft(device, pair);
  });

  test('memory that the peer has read is given back after some seconds, though nobody uses the connection', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device);
    const regions = device.live('mr');
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const receiving = take(pair.server, 1);
    await pair.client.send(numbered(1, 300 * KIB));
    const lease = pair.client.allocate(LENGTH);
    await receiving;
    // With this word comes that it was read.
    const word = take(pair.client, 1);
    await pair.server.send(numbered(2));
    await word;
    expect(device.live('mr')).toBe(regions + 3);
    vi.advanceTimersByTime(15_000);
    // The lease is still there.
    expect(device.live('mr')).toBe(regions + 1);
    lease.release();
    await expectNothingLeft(device, pair);
  });
});
