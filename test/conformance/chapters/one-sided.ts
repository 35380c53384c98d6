import type { Connection, ExposedMemory, MemoryAccess, RemoteMemory } from '@verbmq/core';
import { expect, test } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { settled } from '../../support/expectations.js';
import { expectBytes, fill, numbered, numberOf, pattern, take } from '../../support/messages.js';
import { connectPair, type Pair } from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';

/** What these tests grant: atomics only where there are some. */
export function allAccess(setUp: SetUp): MemoryAccess {
  return { read: true, write: true, atomic: setUp.capabilities.atomics !== 'none' };
}

/** Memory of the server, and the client's view of it. */
export async function share(
  { client, server }: { client: Connection; server: Connection },
  bytes: number,
  access: MemoryAccess,
): Promise<{ owned: ExposedMemory; remote: RemoteMemory }> {
  const owned = await server.expose(bytes, access);
  return { owned, remote: client.attach(owned.descriptor) };
}

function word(memory: ExposedMemory, offset: number): bigint {
  return new BigUint64Array(memory.data.buffer, memory.data.byteOffset + offset, 1)[0]!;
}

export function oneSided(setUp: SetUp): void {
  const access = allAccess(setUp);
  const testOneSided = testNeeding('oneSided', setUp);
  const testAtomic = testNeeding('atomics', setUp);

  testOneSided('exposed memory is zeroed, and its descriptor says what it is', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 1000, { read: true });
    expectBytes(owned.data, new Uint8Array(1000));
    expect(owned).toMatchObject({ byteLength: 1000, access: { read: true, write: false, atomic: false } });
    expect(owned.descriptor).toMatch(/^[A-Za-z0-9_-]{20,300}$/);
    expect(remote).toMatchObject({ byteLength: 1000, access: { read: true, write: false, atomic: false } });
  });

  testOneSided('a descriptor that travelled in a message works', async () => {
    const { client, server } = await connectPair(setUp);
    const owned = await client.expose(64, { read: true });
    owned.data.set(pattern(64));
    await client.send(Buffer.from(owned.descriptor));
    const [message] = await take(server, 1);
    expectBytes(await server.attach(Buffer.from(message!).toString()).read(0, 64), pattern(64));
  });

  testOneSided('memory of the application is exposed as it is, on several connections', async () => {
    const pairs = [await connectPair(setUp), await connectPair(setUp)];
    const own = new Uint8Array(1024).subarray(16, 816);
    own.fill(3);
    const views = await Promise.all(
      pairs.map(async ({ client, server }) => {
        const owned = await server.expose(own, access);
        expect(owned.data).toBe(own);
        return client.attach(owned.descriptor);
      }),
    );
    for (const [n, view] of views.entries()) await view.write(n * 400, pattern(400, n));
    expectBytes(own, Buffer.concat([pattern(400, 0), pattern(400, 1)]));
    for (const view of views) expectBytes(await view.read(0, 800), own);
    // What lies beside it in the same buffer is nobody's business.
    expectBytes(new Uint8Array(own.buffer).subarray(0, 16), new Uint8Array(16));
  });

  testOneSided('read gives all, a part, or nothing of the memory as it is now', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 5000, access);
    owned.data.set(pattern(5000, 1));
    expectBytes(await remote.read(0, 5000), pattern(5000, 1));
    expectBytes(await remote.read(1001, 333), pattern(5000, 1).slice(1001, 1334));
    expectBytes(await remote.read(5000, 0), new Uint8Array(0));
    owned.data.set(pattern(5000, 2));
    expectBytes(await remote.read(4999, 1), pattern(5000, 2).slice(4999));
  });

  testOneSided('read fills the array that it is given, and no more than it', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 100, access);
    owned.data.fill(7);
    const whole = new Uint8Array(50);
    const middle = whole.subarray(10, 20);
    expect(await remote.read(0, middle)).toBe(middle);
    expect([...whole]).toEqual([...Array(10).fill(0), ...Array(10).fill(7), ...Array(30).fill(0)]);
  });

  testOneSided('memory that is transferred under a read fails that read, and nothing else', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 200_000, access);
    owned.data.set(pattern(200_000));
    const taken = [new Uint8Array(100), new Uint8Array(200_000)];
    const reads = taken.map((target) => settled(remote.read(0, target)));
    const others = [remote.read(100, 200), remote.read(0, 200_000)];
    // Whoever has the memory now keeps it: a device may still work on it.
    const kept = taken.map(({ buffer }) => structuredClone(buffer, { transfer: [buffer] }));
    expect(await Promise.all(reads)).toEqual([TypeError, TypeError]);
    expect(kept.length).toBe(taken.length);
    expectBytes((await others[0]) as Uint8Array, pattern(200_000).slice(100, 300));
    expectBytes((await others[1]) as Uint8Array, pattern(200_000));
    await pair.client.send(numbered(1));
    expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);
  });

  testOneSided(
    'reading or writing no bytes needs no memory: that of the array may be transferred',
    async () => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 100, access);
      owned.data.set(pattern(100));
      const before = new Uint8Array(8);
      structuredClone(before.buffer, { transfer: [before.buffer] });
      const meanwhile = new Uint8Array(8).subarray(4, 4);
      const reads = [before, meanwhile].map((target) => settled(remote.read(0, target)));
      structuredClone(meanwhile.buffer, { transfer: [meanwhile.buffer] });
      expect(await Promise.all(reads)).toEqual(['ok', 'ok']);
      expect(await settled(remote.readv([{ offset: 100, target: before }]))).toBe('ok');
      expect(await settled(remote.write(0, before))).toBe('ok');
      expectBytes(await remote.read(0, 100), pattern(100));
      await pair.client.send(numbered(1));
      expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);
    },
  );

  testOneSided(
    'memory that is transferred under a write fails that write or none, and nothing else',
    async () => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 3_000_000, access);
      const taken = [pattern(100), pattern(200_000), pattern(3_000_000)];
      const writes = taken.map((data) => settled(remote.write(0, data)));
      const other = remote.write(0, pattern(300_000, 7));
      const kept = taken.map(({ buffer }) => structuredClone(buffer, { transfer: [buffer as ArrayBuffer] }));
      for (const outcome of await Promise.all(writes)) expect(['ok', TypeError]).toContain(outcome);
      await other;
      expectBytes(owned.data.subarray(0, 300_000), pattern(300_000, 7));
      await pair.client.send(numbered(1));
      expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);
      expect(await pair.client.close()).toMatchObject({ graceful: true });
      expect(kept.length).toBe(taken.length);
    },
  );

  testOneSided('write changes the memory of the owner, there and nowhere else', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 5000, access);
    await remote.write(100, pattern(50));
    expectBytes(owned.data.slice(0, 100), new Uint8Array(100));
    expectBytes(owned.data.slice(100, 150), pattern(50));
    expectBytes(owned.data.slice(150), new Uint8Array(4850));
    await remote.write(5000, new Uint8Array(0));
    await remote.write(4999, Uint8Array.of(9));
    expect(owned.data[4999]).toBe(9);
  });

  testOneSided('megabytes are read and written in one operation', async () => {
    const pair = await connectPair(setUp);
    const bytes = scaled(3_000_000, 300_000) + 7;
    const { owned, remote } = await share(pair, bytes, access);
    await remote.write(0, pattern(bytes, 1));
    expectBytes(owned.data, pattern(bytes, 1));
    expectBytes(await remote.read(0, bytes), pattern(bytes, 1));
  });

  testOneSided('both sides expose memory, several pieces each', async () => {
    const { client, server } = await connectPair(setUp);
    const views: [ExposedMemory, RemoteMemory][] = [];
    for (let n = 0; n < 4; n++) {
      const atServer = await server.expose(100, access);
      const atClient = await client.expose(100, access);
      views.push(
        [atServer, client.attach(atServer.descriptor)],
        [atClient, server.attach(atClient.descriptor)],
      );
    }
    await Promise.all(views.map(([, remote], n) => remote.write(0, pattern(100, n))));
    for (const [n, [owned, remote]] of views.entries()) {
      expectBytes(owned.data, pattern(100, n));
      expectBytes(await remote.read(0, 100), pattern(100, n));
    }
  });

  testOneSided('many operations at once all come to their own end', async () => {
    const pair = await connectPair(setUp);
    const count = scaled(1000, 200);
    const { remote } = await share(pair, count * 16, access);
    await Promise.all(Array.from({ length: count }, (_, n) => remote.write(n * 16, pattern(16, n))));
    const read = await Promise.all(Array.from({ length: count }, (_, n) => remote.read(n * 16, 16)));
    for (const [n, bytes] of read.entries()) expectBytes(bytes, pattern(16, n));
  });

  testOneSided('operations work while messages flow both ways', async () => {
    const pair = await connectPair(setUp);
    const { client, server } = pair;
    const { owned, remote } = await share(pair, 64, access);
    const count = scaled(300, 50);
    server.onMessage((message) => void server.send(message.data));
    const receiving = take(client, count);
    for (let n = 0; n < count; n++) {
      const sent = client.send(numbered(n));
      await remote.write(0, pattern(64, n));
      expectBytes(owned.data, pattern(64, n));
      await sent;
    }
    expect((await receiving).length).toBe(count);
  });

  testOneSided('operations work while neither side reads its messages', async () => {
    const pair = await connectPair(setUp);
    const { client, server } = pair;
    const { owned, remote } = await share(pair, 4096, access);
    const length = Math.min(client.maxMessageBytes, 5000);
    await fill(client, (n) => numbered(n, length));
    await fill(server, (n) => numbered(n, length));
    await remote.write(0, pattern(4096));
    expectBytes(owned.data, pattern(4096));
    expectBytes(await remote.read(0, 4096), pattern(4096));
  });

  testAtomic('fetchAdd answers with the value before, and wraps at 64 bits', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 64, { atomic: true });
    expect(await remote.fetchAdd(8, 5n)).toBe(0n);
    expect(await remote.fetchAdd(8, 2n)).toBe(5n);
    expect(word(owned, 8)).toBe(7n);
    expect(await remote.fetchAdd(8, -8n)).toBe(7n);
    expect(word(owned, 8)).toBe(2n ** 64n - 1n);
    expect(await remote.fetchAdd(8, 2n ** 64n - 1n)).toBe(2n ** 64n - 1n);
    expect(word(owned, 8)).toBe(2n ** 64n - 2n);
    expect(word(owned, 0)).toBe(0n);
    expect(word(owned, 16)).toBe(0n);
  });

  testAtomic(
    'compareAndSwap stores where the value was expected, and answers with it either way',
    async () => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 8, { atomic: true });
      expect(await remote.compareAndSwap(0, 0n, 2n ** 63n + 1n)).toBe(0n);
      expect(word(owned, 0)).toBe(2n ** 63n + 1n);
      expect(await remote.compareAndSwap(0, 0n, 3n)).toBe(2n ** 63n + 1n);
      expect(word(owned, 0)).toBe(2n ** 63n + 1n);
      expect(await remote.compareAndSwap(0, 2n ** 63n + 1n, -1n)).toBe(2n ** 63n + 1n);
      expect(word(owned, 0)).toBe(2n ** 64n - 1n);
    },
  );

  testAtomic('additions of both peers of an owner count each exactly once', async () => {
    const one = await connectPair(setUp);
    const count = scaled(500, 100);
    const { owned, remote } = await share(one, 8, { atomic: true });
    const again = one.client.attach(owned.descriptor);
    const before = await Promise.all(
      Array.from({ length: count }, (_, n) => (n % 2 === 0 ? remote : again).fetchAdd(0, 1n)),
    );
    expect(word(owned, 0)).toBe(BigInt(count));
    expect(new Set(before).size).toBe(count);
  });

  if (setUp.capabilities.oneSided === 'none') {
    test('exposing and attaching memory is refused where it is not supported', async () => {
      const { client }: Pair = await connectPair(setUp);
      await expect(client.expose(8, { read: true })).rejects.toMatchObject({
        code: 'ERR_VERBMQ_UNSUPPORTED',
      });
    });
  } else if (setUp.capabilities.atomics === 'none') {
    test('exposing memory for atomics is refused where they are not supported', async () => {
      const { client }: Pair = await connectPair(setUp);
      await expect(client.expose(8, { atomic: true })).rejects.toMatchObject({
        code: 'ERR_VERBMQ_UNSUPPORTED',
      });
      expect(client.state).toBe('open');
    });
  }
}
