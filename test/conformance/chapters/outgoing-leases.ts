import { expect, test } from 'vitest';
import { failure, outcomeOf } from '../../support/expectations.js';
import { expectBytes, fill, numbered, numberOf, pattern, take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';

const RELEASED = expect.objectContaining({ code: 'ERR_VERBMQ_LEASE_RELEASED' });

export function outgoingLeases(setUp: SetUp): void {
  test('a leased buffer is filled and sent, and then belongs to the connection', async () => {
    const { client, server } = await connectPair(setUp);
    const lease = client.allocate(1000);
    lease.data.set(pattern(1000));
    const sending = client.send(lease);
    expect(() => lease.data).toThrow(RELEASED);
    expect(() => lease.shrink(1)).toThrow(RELEASED);
    await sending;
    lease.release(); // does nothing
    expectBytes((await take(server, 1))[0]!, pattern(1000));
  });

  test('a leased buffer is sent by trySend', async () => {
    const { client, server } = await connectPair(setUp);
    const lease = client.allocate(10);
    lease.data.set(pattern(10));
    expect(client.trySend(lease)).toBe(true);
    expect(() => lease.data).toThrow(RELEASED);
    expectBytes((await take(server, 1))[0]!, pattern(10));
  });

  test('a leased buffer is shortened to what was needed', async () => {
    const { client, server } = await connectPair(setUp);
    const lease = client.allocate(4000);
    lease.data.set(pattern(4000));
    expect(lease.shrink(1234)).toBe(lease);
    expect(lease.byteLength).toBe(1234);
    expect(await outcomeOf(() => lease.shrink(1235))).toBe(RangeError);
    await client.send(lease);
    expectBytes((await take(server, 1))[0]!, pattern(4000).slice(0, 1234));
  });

  test('a leased buffer of 0 bytes is a message', async () => {
    const { client, server } = await connectPair(setUp);
    await client.send(client.allocate(0));
    await client.send(client.allocate(100).shrink(0));
    expect((await take(server, 2)).map((bytes) => bytes.byteLength)).toEqual([0, 0]);
  });

  test('a leased buffer is sent once', async () => {
    const { client, server } = await connectPair(setUp);
    const lease = client.allocate(4);
    lease.data.set(numbered(1));
    await client.send(lease);
    await failure(client.send(lease), 'ERR_VERBMQ_LEASE_RELEASED');
    expect(() => client.trySend(lease)).toThrow(RELEASED);
    await client.send(numbered(2));
    expect((await take(server, 2)).map(numberOf)).toEqual([1, 2]);
  });

  test('a released buffer cannot be used', async () => {
    const { client } = await connectPair(setUp);
    const lease = client.allocate(4);
    lease.release();
    lease.release();
    expect(() => lease.data).toThrow(RELEASED);
    expect(() => lease.byteLength).toThrow(RELEASED);
    await failure(client.send(lease), 'ERR_VERBMQ_LEASE_RELEASED');
  });

  test('a leased buffer is released when it is disposed of', async () => {
    const { client } = await connectPair(setUp);
    const lease = client.allocate(4);
    lease[Symbol.dispose]();
    expect(() => lease.data).toThrow(RELEASED);
  });

  test("another connection's buffer is refused, and stays usable", async () => {
    const { client, server } = await connectPair(setUp);
    const lease = server.allocate(4);
    lease.data.set(numbered(3));
    expect(await outcomeOf(() => client.send(lease))).toBe(TypeError);
    expect(await outcomeOf(() => client.trySend(lease))).toBe(TypeError);
    await server.send(lease);
    expect(numberOf((await take(client, 1))[0]!)).toBe(3);
  });

  test('a buffer that trySend had no room for stays with the caller', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 10_000);
    const lease = client.allocate(length);
    const sent = await fill(client, (n) => numbered(n, length));
    lease.data.set(numbered(sent));
    expect(client.trySend(lease)).toBe(false);
    expect(numberOf(lease.data)).toBe(sent);
    const waiting = client.send(lease);
    expect(() => lease.data).toThrow(RELEASED);
    const received = await take(server, sent + 1);
    await waiting;
    expect(numberOf(received.at(-1)!)).toBe(sent);
  });

  test('many buffers are taken, released and sent in turn', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(1000, 200);
    const receiving = take(server, count);
    for (let n = 0; n < count; n++) {
      const unused = client.allocate(100 + n);
      const lease = client.allocate(100 + n);
      lease.data.set(numbered(n, 100 + n));
      unused.release();
      await client.send(lease);
    }
    const received = await receiving;
    expect(received.map(numberOf)).toEqual(Array.from({ length: count }, (_, n) => n));
    expect(received.every((bytes, n) => bytes.byteLength === 100 + n)).toBe(true);
  });

  test('a buffer may be released after its connection has ended', async () => {
    const { client } = await connectPair(setUp);
    const lease = client.allocate(100);
    await client.close();
    await failure(client.send(lease), 'ERR_VERBMQ_CLOSED');
    lease.release();
    expect(() => lease.data).toThrow(RELEASED);
  });
}
