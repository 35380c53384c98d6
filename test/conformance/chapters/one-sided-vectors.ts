import { MAX_VECTOR_PIECES } from '@verbmq/core';
import { expect } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { failure, outcomeOf } from '../../support/expectations.js';
import { expectBytes, numbered, pattern, take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';
import { allAccess, share } from './one-sided.js';

const REFUSED = 'ERR_VERBMQ_REMOTE_ACCESS';

export function oneSidedVectors(setUp: SetUp): void {
  const access = allAccess(setUp);
  const testOneSided = testNeeding('oneSided', setUp);

  testOneSided('readv answers with each piece in its place, in arrays of its own or given ones', async () => {
    const { owned, remote } = await share(await connectPair(setUp), 5000, access);
    owned.data.set(pattern(5000));
    const whole = new Uint8Array(50);
    const middle = whole.subarray(10, 20);
    const [last, none, given, first, again] = await remote.readv([
      { offset: 4000, target: 1000 },
      { offset: 5000, target: 0 },
      { offset: 77, target: middle },
      { offset: 0, target: 1 },
      { offset: 4000, target: 1000 },
    ]);
    expectBytes(last!, pattern(5000).slice(4000));
    expectBytes(none!, new Uint8Array(0));
    expect(given).toBe(middle);
    expectBytes(whole, Buffer.concat([new Uint8Array(10), pattern(5000).slice(77, 87), new Uint8Array(30)]));
    expectBytes(first!, pattern(5000).slice(0, 1));
    expectBytes(again!, last!);
  });

  testOneSided('writev changes the memory of the owner, there and nowhere else', async () => {
    const { owned, remote } = await share(await connectPair(setUp), 1000, access);
    await remote.writev([
      { offset: 900, data: pattern(100, 1) },
      { offset: 1000, data: new Uint8Array(0) },
      { offset: 0, data: pattern(10, 2) },
      { offset: 500, data: pattern(1, 3) },
    ]);
    const expected = new Uint8Array(1000);
    expected.set(pattern(100, 1), 900);
    expected.set(pattern(10, 2));
    expected.set(pattern(1, 3), 500);
    expectBytes(owned.data, expected);
  });

  testOneSided('no pieces, or only empty ones, are soon done', async () => {
    const { owned, remote } = await share(await connectPair(setUp), 100, access);
    expect(await remote.readv([])).toEqual([]);
    await remote.writev([]);
    await remote.writev([{ offset: 100, data: new Uint8Array(0) }]);
    expect(await remote.readv([{ offset: 100, target: 0 }])).toEqual([new Uint8Array(0)]);
    expectBytes(owned.data, new Uint8Array(100));
  });

  testOneSided('as many pieces as are allowed, of both kinds and in both directions at once', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(MAX_VECTOR_PIECES, 200);
    const bytes = 2 * count * 16;
    const memories = [
      await share({ client, server }, bytes, access),
      await share({ client: server, server: client }, bytes, access),
    ];
    await Promise.all(
      memories.map(async ({ owned, remote }, side) => {
        owned.data.set(pattern(bytes / 2, side), bytes / 2);
        const read = remote.readv(
          Array.from({ length: count }, (_, n) => ({ offset: bytes / 2 + n * 16, target: 16 })),
        );
        await remote.writev(
          Array.from({ length: count }, (_, n) => ({ offset: n * 16, data: pattern(16, n + side) })),
        );
        expectBytes(Buffer.concat(await read), pattern(bytes / 2, side));
        for (let n = 0; n < count; n++)
          expectBytes(owned.data.slice(n * 16, n * 16 + 16), pattern(16, n + side));
      }),
    );
  });

  testOneSided('pieces of bytes and of megabytes in one call', async () => {
    const lengths = [7, scaled(1_500_000, 150_000), 1, scaled(700_001, 70_001), 4097];
    const { owned, remote } = await share(
      await connectPair(setUp),
      lengths.reduce((sum, length) => sum + length),
      access,
    );
    let end = 0;
    const pieces = lengths.map((length, n) => {
      end += length;
      return { offset: end - length, data: pattern(length, n) };
    });
    await remote.writev(pieces);
    expectBytes(owned.data, Buffer.concat(pieces.map(({ data }) => data)));
    const read = await remote.readv(pieces.map(({ offset, data }) => ({ offset, target: data.length })));
    for (const [n, { data }] of pieces.entries()) expectBytes(read[n]!, data);
  });

  testOneSided(
    'a message that is sent behind writev and read by the owner finds all of it done',
    async () => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 1000, access);
      await remote.writev(Array.from({ length: 10 }, (_, n) => ({ offset: n * 100, data: pattern(100, n) })));
      await pair.client.send(numbered(1));
      await take(pair.server, 1);
      for (let n = 0; n < 10; n++) expectBytes(owned.data.slice(n * 100, n * 100 + 100), pattern(100, n));
    },
  );

  testOneSided('one piece that is wrong lets the call fail before anything is sent', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 100, access);
    const data = pattern(10);
    const target = new Uint8Array(10);
    const good = { offset: 0, data, target };
    for (const offset of [-1, 91, 101, 0.5, Number.NaN]) {
      expect(await outcomeOf(() => remote.writev([good, { offset, data }])), `write at ${offset}`).toBe(
        RangeError,
      );
      expect(await outcomeOf(() => remote.readv([good, { offset, target }])), `read at ${offset}`).toBe(
        RangeError,
      );
    }
    const tooMany = Array.from({ length: MAX_VECTOR_PIECES + 1 }, () => good);
    expect(await outcomeOf(() => remote.writev(tooMany))).toBe(RangeError);
    expect(await outcomeOf(() => remote.readv(tooMany))).toBe(RangeError);
    // What came before it has not left: nothing overtakes a read of the same connection that could tell.
    await remote.read(0, 100);
    expectBytes(owned.data, new Uint8Array(100));
    expectBytes(target, new Uint8Array(10));
    expect(pair.client.state).toBe('open');
  });

  testOneSided('what was not granted is refused here, and the connection goes on', async () => {
    const pair = await connectPair(setUp);
    const readable = await share(pair, 8, { read: true });
    const writable = await share(pair, 8, { write: true });
    await failure(readable.remote.writev([{ offset: 0, data: new Uint8Array(8) }]), REFUSED);
    await failure(writable.remote.readv([{ offset: 0, target: 8 }]), REFUSED);
    await readable.remote.readv([{ offset: 0, target: 8 }]);
    await writable.remote.writev([{ offset: 0, data: pattern(8) }]);
  });

  testOneSided('after revoke a vector ends the connection on both sides, and changes nothing', async () => {
    for (const what of ['readv', 'writev'] as const) {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 100, access);
      await owned.revoke();
      const pieces = [0, 50].map((offset) => ({ offset, data: pattern(50), target: 50 }));
      await failure(remote[what](pieces), REFUSED);
      expect((await pair.client.closed).error?.code).toBe(REFUSED);
      expect((await pair.server.closed).error?.code).toBe(REFUSED);
      expectBytes(owned.data, new Uint8Array(100));
    }
  });

  testOneSided('an abort settles it, and says of what was being written that nobody knows', async () => {
    const pair = await connectPair(setUp);
    const { remote } = await share(pair, 1_000_000, access);
    const pieces = Array.from({ length: 20 }, (_, n) => ({ offset: n * 50_000, data: pattern(50_000) }));
    const write = remote.writev(pieces);
    const read = remote.readv(pieces.map(({ offset }) => ({ offset, target: 50_000 })));
    pair.client.abort();
    const [written, wasRead] = await Promise.allSettled([write, read]);
    if (written.status === 'rejected')
      expect(written.reason).toMatchObject({ code: 'ERR_VERBMQ_ABORTED', outcome: 'unknown' });
    if (wasRead.status === 'rejected')
      expect(wasRead.reason).toMatchObject({ code: 'ERR_VERBMQ_ABORTED', outcome: undefined });
    await failure(remote.readv([{ offset: 0, target: 1 }]), 'ERR_VERBMQ_CLOSED');
    await failure(remote.writev([]), 'ERR_VERBMQ_CLOSED');
  });

  testOneSided('a close waits for it', async () => {
    const pair = await connectPair(setUp);
    const { owned, remote } = await share(pair, 10_000, access);
    const pieces = Array.from({ length: 100 }, (_, n) => ({ offset: n * 100, data: pattern(100, n) }));
    const written = remote.writev(pieces);
    const closing = pair.client.close();
    await written;
    expect(await closing).toEqual({ graceful: true, initiator: 'local' });
    expectBytes(owned.data, Buffer.concat(pieces.map(({ data }) => data)));
  });
}
