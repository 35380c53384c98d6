import { expect, test } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { failure, outcomeOf, settled } from '../../support/expectations.js';
import { expectBytes, numbered, pattern, repeated, sameBytes, take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { inGuest, type SetUp, stretched } from '../../support/set-up.js';

/** Lengths at which headers, alignments and buffers of usual sizes change. */
const USUAL = [0, 1, 2, 3, 4, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 65_535];

/** Both sides' limit in this chapter, so that the largest message can be tried: an odd number, to hit no alignment. */
const LIMIT = inGuest ? 1024 * 1024 + 3 : 8 * 1024 * 1024 + 3;

/** TypeScript's library for this version of Node does not know of them. */
function makeResizable(bytes: number, maxByteLength: number): ArrayBuffer & { resize(bytes: number): void } {
  const Resizable = ArrayBuffer as unknown as new (
    bytes: number,
    options: object,
  ) => ArrayBuffer & { resize(bytes: number): void };
  return new Resizable(bytes, { maxByteLength });
}

export function sizes(setUp: SetUp): void {
  test('memory that is transferred or resized under a send fails that send or none, and nothing else', async () => {
    const { client, server } = await connectPair(setUp, { both: { highWaterMarkBytes: 300_000 } });
    const resizable = makeResizable(100_000, 200_000);
    // Some find room, and some wait.
    const messages = [
      pattern(100_000, 1),
      new Uint8Array(resizable),
      pattern(200_000, 2),
      pattern(2000, 3),
      pattern(400_000, 4),
    ];
    const sends = messages.map((data) => settled(client.send(data)));
    for (const { buffer } of messages) {
      if (buffer === resizable) resizable.resize(50);
      else structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
    }
    const last = client.send(numbered(99));
    const arrived: number[] = [];
    const all = new Promise<void>((resolve) => {
      server.onMessage(({ data }) => {
        arrived.push(data.length);
        if (data.length === numbered(99).length) resolve();
      });
    });
    const outcomes = await Promise.all(sends);
    for (const outcome of outcomes) expect(['ok', TypeError]).toContain(outcome);
    await last;
    await all;
    const lengths = [100_000, 100_000, 200_000, 2000, 400_000];
    const sent = lengths.filter((_, index) => outcomes[index] === 'ok');
    expect(arrived).toEqual([...sent, numbered(99).length]);
    await client.drain();
    expect(client.stats()).toMatchObject({ bytesBuffered: 0, bytesWaiting: 0, sendsWaiting: 0 });
    expect(await client.close()).toMatchObject({ graceful: true });
  });

  const around = setUp.boundaries.flatMap((length) => [length - 1, length, length + 1]);
  const testLarge = testNeeding('largeMessages', setUp);
  const lengths = [...new Set([...USUAL, ...around])].sort((a, b) => a - b);

  test('every length arrives unchanged, from 0 bytes on and around each boundary', async () => {
    const { client, server } = await connectPair(setUp, { both: { maxMessageBytes: LIMIT } });
    const usable = lengths.filter((length) => length <= client.maxMessageBytes);
    expect(usable.length).toBeGreaterThanOrEqual(Math.min(lengths.length, USUAL.length - 1));
    for (const length of usable) {
      const receiving = take(server, 1);
      await client.send(pattern(length, length));
      expectBytes((await receiving)[0]!, pattern(length, length));
    }
  });

  test('the same lengths arrive unchanged from leased buffers', async () => {
    const { client, server } = await connectPair(setUp, { both: { maxMessageBytes: LIMIT } });
    for (const length of lengths.filter((each) => each <= client.maxMessageBytes)) {
      const lease = client.allocate(length);
      expect(lease.byteLength).toBe(length);
      lease.data.set(pattern(length, length));
      const receiving = take(server, 1);
      await client.send(lease);
      expectBytes((await receiving)[0]!, pattern(length, length));
    }
  });

  test('all lengths arrive unchanged when they are sent at once', async () => {
    const { client, server } = await connectPair(setUp, { both: { maxMessageBytes: LIMIT } });
    const usable = lengths.filter((length) => length <= client.maxMessageBytes);
    const receiving = take(server, usable.length);
    await Promise.all(usable.map((length) => client.send(pattern(length, length))));
    for (const [i, bytes] of (await receiving).entries()) expectBytes(bytes, pattern(usable[i]!, usable[i]!));
  });

  test('a view into the middle of a larger buffer is sent as it is', async () => {
    const { client, server } = await connectPair(setUp);
    const whole = pattern(1000);
    await client.send(whole.subarray(100, 300));
    await client.send(Buffer.from(whole.buffer, 500, 17));
    const [first, second] = await take(server, 2);
    expectBytes(first!, whole.slice(100, 300));
    expectBytes(second!, whole.slice(500, 517));
  });

  test('a message of exactly maxMessageBytes arrives, and one byte more is refused', async () => {
    const { client, server } = await connectPair(setUp, { both: { maxMessageBytes: LIMIT } });
    const limit = client.maxMessageBytes;
    const receiving = take(server, 1);
    await client.send(pattern(limit));
    expectBytes((await receiving)[0]!, pattern(limit));

    await failure(client.send(new Uint8Array(limit + 1)), 'ERR_VERBMQ_MESSAGE_TOO_LARGE');
    expect(() => client.trySend(new Uint8Array(limit + 1))).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_MESSAGE_TOO_LARGE' }),
    );
    expect(() => client.allocate(limit + 1)).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_MESSAGE_TOO_LARGE' }),
    );
    await client.send(pattern(3));
    expectBytes((await take(server, 1))[0]!, pattern(3));
  });

  test('an answer from within the handler is checked as any other message', async () => {
    const { client, server } = await connectPair(setUp, { both: { maxMessageBytes: 4 } });
    const answered = new Promise<unknown[]>((resolve) => {
      server.onMessage(() => {
        const outcomes = [new Uint8Array(5), 'text', undefined, Uint8Array.of(7)].map((data) =>
          outcomeOf(() => server.trySend(data as Uint8Array)),
        );
        void server.close();
        outcomes.push(outcomeOf(() => server.trySend(Uint8Array.of(8))));
        resolve(Promise.all(outcomes));
      });
    });
    const receiving = take(client, 1);
    await client.send(Uint8Array.of(1));
    expect(await answered).toEqual([
      'ERR_VERBMQ_MESSAGE_TOO_LARGE',
      TypeError,
      TypeError,
      'ok',
      'ERR_VERBMQ_CLOSED',
    ]);
    expect((await receiving).map((bytes) => [...bytes])).toEqual([[7]]);
  });

  test('a limit of one byte is kept', async () => {
    const { client, server } = await connectPair(setUp, { server: { maxMessageBytes: 1 } });
    expect(client.maxMessageBytes).toBe(1);
    await failure(client.send(new Uint8Array(2)), 'ERR_VERBMQ_MESSAGE_TOO_LARGE');
    await client.send(Uint8Array.of(42));
    await client.send(new Uint8Array(0));
    expect((await take(server, 2)).map((bytes) => [...bytes])).toEqual([[42], []]);
  });

  testLarge('the default limit is 64 MiB', async () => {
    const { client } = await connectPair(setUp);
    expect(client.maxMessageBytes).toBe(64 * 1024 * 1024);
  });

  testLarge(
    'a message of 64 MiB arrives',
    async () => {
      const { client, server } = await connectPair(setUp);
      const message = repeated(64 * 1024 * 1024);
      const arrived = new Promise<boolean>((resolve) => {
        server.onMessage(({ data }) => resolve(sameBytes(data, message)));
      });
      await client.send(message);
      expect(await arrived).toBe(true);
    },
    stretched(20_000),
  );

  test('the sender may overwrite its buffer when send has resolved', async () => {
    const { client, server } = await connectPair(setUp);
    for (const length of [10, Math.min(client.maxMessageBytes, 3 * 1024 * 1024)]) {
      const buffer = pattern(length, 1);
      const receiving = take(server, 1);
      await client.send(buffer);
      buffer.fill(0xee);
      expectBytes((await receiving)[0]!, pattern(length, 1));
    }
  });

  test('the sender may overwrite its buffer when trySend has returned', async () => {
    const { client, server } = await connectPair(setUp);
    for (const length of [10, Math.min(client.maxMessageBytes, 300_000)]) {
      const buffer = pattern(length, 1);
      const receiving = take(server, 1);
      expect(client.trySend(buffer)).toBe(true);
      buffer.fill(0xee);
      expectBytes((await receiving)[0]!, pattern(length, 1));
    }
  });
}
