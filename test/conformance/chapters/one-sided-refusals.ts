import { expect } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { failure, outcomeOf } from '../../support/expectations.js';
import { expectBytes, numbered, numberOf, pattern, take } from '../../support/messages.js';
import { connectPair, type Pair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { allAccess, share } from './one-sided.js';

const CODE = 'ERR_VERBMQ_REMOTE_ACCESS';

/** Both sides have ended with the one code that says why. */
async function expectRefused({ client, server }: Pair): Promise<void> {
  expect((await client.closed).error?.code).toBe(CODE);
  expect((await server.closed).error?.code).toBe(CODE);
}

/** The descriptor with some of its bytes changed (core's memory.ts says which are which). */
function forge(descriptor: string, change: (bytes: Buffer) => void): string {
  const bytes = Buffer.from(descriptor, 'base64url');
  change(bytes);
  return bytes.toString('base64url');
}

export function oneSidedRefusals(setUp: SetUp): void {
  const access = allAccess(setUp);
  const testOneSided = testNeeding('oneSided', setUp);
  const testAtomic = testNeeding('atomics', setUp);

  testOneSided('what lies out of bounds is a RangeError, and nothing is sent', async () => {
    const pair = await connectPair(setUp);
    const { remote } = await share(pair, 100, access);
    const outOfBounds: [string, () => unknown][] = [
      ['read beyond the end', () => remote.read(0, 101)],
      ['read across the end', () => remote.read(60, 41)],
      ['read from beyond the end', () => remote.read(101, 0)],
      ['read from before the start', () => remote.read(-1, 1)],
      ['read from a fraction', () => remote.read(0.5, 1)],
      ['read a negative length', () => remote.read(0, -1)],
      ['read into a longer array', () => remote.read(0, new Uint8Array(101))],
      ['write across the end', () => remote.write(60, new Uint8Array(41))],
      ['write from beyond the end', () => remote.write(2 ** 53, new Uint8Array(1))],
    ];
    for (const [what, operation] of outOfBounds) expect(await outcomeOf(operation), what).toBe(RangeError);
    expect(pair.client.state).toBe('open');
    await remote.write(0, pattern(100));
  });

  testAtomic('atomics out of bounds or off alignment are a RangeError', async () => {
    const pair = await connectPair(setUp);
    const { remote } = await share(pair, 100, { atomic: true });
    for (const offset of [1, 4, 7, 96, 97, 100, 104, -8]) {
      expect(await outcomeOf(() => remote.fetchAdd(offset, 1n)), `offset ${offset}`).toBe(RangeError);
      expect(await outcomeOf(() => remote.compareAndSwap(offset, 0n, 1n)), `offset ${offset}`).toBe(
        RangeError,
      );
    }
    for (const value of [2n ** 64n, -(2n ** 63n) - 1n]) {
      expect(await outcomeOf(() => remote.fetchAdd(0, value))).toBe(RangeError);
      expect(await outcomeOf(() => remote.compareAndSwap(0, value, 0n))).toBe(RangeError);
      expect(await outcomeOf(() => remote.compareAndSwap(0, 0n, value))).toBe(RangeError);
    }
    expect(await remote.fetchAdd(88, 1n)).toBe(0n);
  });

  testOneSided('what was not granted is refused here, and the connection goes on', async () => {
    const pair = await connectPair(setUp);
    const readable = await share(pair, 8, { read: true });
    const writable = await share(pair, 8, { write: true });
    await failure(readable.remote.write(0, new Uint8Array(8)), CODE);
    await failure(readable.remote.fetchAdd(0, 1n), CODE);
    await failure(readable.remote.compareAndSwap(0, 0n, 1n), CODE);
    await failure(writable.remote.read(0, 8), CODE);
    await readable.remote.read(0, 8);
    await writable.remote.write(0, pattern(8));
    await pair.client.send(numbered(1));
    expect(numberOf((await take(pair.server, 1))[0]!)).toBe(1);
  });

  testOneSided('a string that is no descriptor is refused, and the connection goes on', async () => {
    const { client, server } = await connectPair(setUp);
    const { descriptor } = await server.expose(8, { read: true });
    const longer = forge(descriptor, (bytes) => bytes.writeBigUInt64LE(2n ** 60n, 10));
    const future = forge(descriptor, (bytes) => bytes.writeUInt8(99, 0));
    for (const text of [
      '',
      'x',
      'no descriptor at all',
      descriptor.slice(0, 10),
      `${descriptor}!`,
      longer,
      future,
    ]) {
      expect(await outcomeOf(() => client.attach(text)), text).toBe('ERR_VERBMQ_INVALID_DESCRIPTOR');
    }
    expect(client.state).toBe('open');
  });

  testOneSided(
    'after revoke an operation ends the connection on both sides, with the same code',
    async () => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 100, access);
      await remote.write(0, pattern(100));
      await owned.revoke();
      await failure(remote.read(0, 100), CODE);
      await expectRefused(pair);
      expectBytes(owned.data, pattern(100)); // it stays the owner's
    },
  );

  testOneSided('a write after revoke takes no effect', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 100, access);
    await owned.revoke();
    await failure(remote.write(0, pattern(100)), CODE);
    await expectRefused(pair);
    expectBytes(owned.data, new Uint8Array(100));
  });

  testOneSided('revoking one piece leaves the others, and revoking twice does nothing', async () => {
    const pair = await connectPair(setUp);
    const revoked = await share(pair, 100, access);
    const kept = await share(pair, 100, access);
    await Promise.all([revoked.owned.revoke(), revoked.owned.revoke()]);
    await revoked.owned.revoke();
    await kept.remote.write(0, pattern(100));
    expectBytes(kept.owned.data, pattern(100));
  });

  testOneSided('a descriptor with a forged key is refused on both sides', async () => {
    const pair = await connectPair(setUp);
    const { descriptor } = await pair.server.expose(100, access);
    const forged = forge(descriptor, (bytes) => {
      bytes[bytes.length - 1]! ^= 0x5a;
    });
    await failure(pair.client.attach(forged).read(0, 100), CODE);
    await expectRefused(pair);
  });

  testOneSided('a descriptor that claims more bytes than were exposed is refused on both sides', async () => {
    const pair = await connectPair(setUp);
    const { descriptor } = await pair.server.expose(8192, access);
    const forged = forge(descriptor, (bytes) => bytes.writeBigUInt64LE(2n ** 30n, 10));
    await failure(pair.client.attach(forged).write(2 ** 29, new Uint8Array(8)), CODE);
    await expectRefused(pair);
  });

  testOneSided('a descriptor that claims rights that were not granted is refused on both sides', async () => {
    const pair = await connectPair(setUp);
    const { descriptor, data } = await pair.server.expose(100, { read: true });
    const forged = forge(descriptor, (bytes) => bytes.writeUInt8(7, 1));
    await failure(pair.client.attach(forged).write(0, pattern(100)), CODE);
    await expectRefused(pair);
    expectBytes(data, new Uint8Array(100));
  });

  testOneSided('a descriptor of another connection is worthless', async () => {
    const mine = await connectPair(setUp);
    const other = await connectPair(setUp);
    const { descriptor } = await other.server.expose(100, access);
    await failure(mine.client.attach(descriptor).read(0, 100), CODE);
    await expectRefused(mine);
    expect(other.client.state).toBe('open');
    await other.client.attach(descriptor).read(0, 100);
  });

  testOneSided('a refusal fails everything that was pending on the connection', async () => {
    const pair = await connectPair(setUp);
    const good = await share(pair, 100, access);
    const bad = await share(pair, 100, access);
    await bad.owned.revoke();
    const iterating = pair.client.messages().next();
    const refused = bad.remote.read(0, 100);
    const behind = Array.from({ length: 10 }, () => outcomeOf(() => good.remote.read(0, 100)));
    await failure(refused, CODE);
    await failure(iterating, CODE);
    for (const outcome of await Promise.all(behind)) expect(['ok', CODE]).toContain(outcome);
  });

  testOneSided('access ends with the connection, and the memory stays with its owner', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 100, access);
    await remote.write(0, pattern(100));
    await pair.client.close();
    await pair.server.closed;
    await failure(remote.read(0, 100), 'ERR_VERBMQ_CLOSED');
    await owned.revoke();
    expectBytes(owned.data, pattern(100));
  });
}
