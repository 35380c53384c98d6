import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { numbered, numberOf, pattern, sameBytes, take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';

export function ordering(setUp: SetUp): void {
  test('messages arrive in the order of the calls, whether these are awaited or not', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(3000, 300);
    const receiving = take(server, count);
    const sends: Promise<void>[] = [];
    for (let n = 0; n < count; n++) {
      const send = client.send(numbered(n));
      if (n % 100 === 0) await send;
      else sends.push(send);
    }
    await Promise.all(sends);
    expect((await receiving).map(numberOf)).toEqual(Array.from({ length: count }, (_, n) => n));
  });

  test('send, trySend and leases of the same turn keep their order', async () => {
    const { client, server } = await connectPair(setUp);
    const receiving = take(server, 30);
    let n = 0;
    for (let round = 0; round < 10; round++) {
      const sent = client.send(numbered(n++));
      const lease = client.allocate(4);
      lease.data.set(numbered(n++));
      const leased = client.send(lease);
      if (!client.trySend(numbered(n++))) {
        await client.send(numbered(n - 1));
      }
      await Promise.all([sent, leased]);
    }
    expect((await receiving).map(numberOf)).toEqual(Array.from({ length: 30 }, (_, i) => i));
  });

  test('answers from within the handler keep their order, however each is sent', async () => {
    const { client, server } = await connectPair(setUp);
    const rounds = scaled(60, 20);
    const long = Math.min(client.maxMessageBytes, 20_000);
    let n = 0;
    server.onMessage(() => {
      if (!server.trySend(numbered(n++))) void server.send(numbered(n - 1));
      if (n % 3 === 0) void server.send(numbered(n++, long));
      if (!server.trySend(numbered(n++))) void server.send(numbered(n - 1));
      void server.send(numbered(n++));
    });
    const count = 3 * rounds;
    const receiving = take(client, count);
    for (let round = 0; round < rounds; round++) {
      await client.send(numbered(round));
      if (round % 2 === 0) await setImmediate(); // the others come together
    }
    expect((await receiving).map(numberOf)).toEqual(Array.from({ length: count }, (_, i) => i));
  });

  test('large and small messages keep their order among each other', async () => {
    const { client, server } = await connectPair(setUp);
    const large = Math.min(client.maxMessageBytes, 1024 * 1024);
    const lengths = [4, large, 5, 6, large - 1, 0, large, 7, 8, 9, large, 10];
    const receiving = take(server, lengths.length);
    await Promise.all(lengths.map((length, n) => client.send(pattern(length, n))));
    const received = await receiving;
    expect(received.map((bytes) => bytes.byteLength)).toEqual(lengths);
    expect(received.every((bytes, n) => sameBytes(bytes, pattern(lengths[n]!, n)))).toBe(true);
  });

  test('sends that wait for room keep their order', async () => {
    const { client, server } = await connectPair(setUp, { both: { highWaterMarkBytes: 1024 } });
    const count = scaled(500, 100);
    const sends = Array.from({ length: count }, (_, n) => client.send(numbered(n, 512)));
    expect((await take(server, count)).map(numberOf)).toEqual(Array.from({ length: count }, (_, n) => n));
    await Promise.all(sends);
  });

  test('traffic in both directions at once keeps both orders', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(1000, 100);
    const lengthOf = (n: number): number => (n % 50 === 0 ? Math.min(client.maxMessageBytes, 100_000) : 16);
    const flood = async (from: typeof client): Promise<void> => {
      for (let n = 0; n < count; n++) await from.send(numbered(n, lengthOf(n)));
    };
    const [atServer, atClient] = await Promise.all([
      take(server, count),
      take(client, count),
      flood(client),
      flood(server),
    ]);
    const expected = Array.from({ length: count }, (_, n) => n);
    expect(atServer.map(numberOf)).toEqual(expected);
    expect(atClient.map(numberOf)).toEqual(expected);
    expect(atServer.every((bytes, n) => bytes.byteLength === lengthOf(n))).toBe(true);
  });

  test('crossed large messages do not wait for each other', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 4 * 1024 * 1024);
    const rounds = 4;
    const [atServer, atClient] = await Promise.all([
      take(server, rounds),
      take(client, rounds),
      ...Array.from({ length: rounds }, (_, n) => client.send(pattern(length, n))),
      ...Array.from({ length: rounds }, (_, n) => server.send(pattern(length, 100 + n))),
    ]);
    expect(atServer.every((bytes, n) => sameBytes(bytes, pattern(length, n)))).toBe(true);
    expect(atClient.every((bytes, n) => sameBytes(bytes, pattern(length, 100 + n)))).toBe(true);
  });

  test('an echo within the handler answers in order', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(1000, 100);
    const echoes: Promise<void>[] = [];
    server.onMessage((message) => {
      echoes.push(server.send(message.data));
    });
    const receiving = take(client, count);
    for (let n = 0; n < count; n++) await client.send(numbered(n));
    expect((await receiving).map(numberOf)).toEqual(Array.from({ length: count }, (_, n) => n));
    await Promise.all(echoes);
  });
}
