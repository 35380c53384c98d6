import type { AutoConnection, AutoOptions } from '@verbmq/core/auto';
import { expect, test } from 'vitest';
import { onBase, onFast, pathIs } from './auto-pair.js';
import { expectBytes, fill, numbered, numberOf, pattern, take } from './messages.js';
import { scaled } from './set-up.js';

/** How often a move is repeated that meets something else each time. */
const MOVES = scaled(10);

export interface MovingPair {
  readonly client: AutoConnection;
  readonly server: AutoConnection;
  /** The fast path that is used breaks now, or when it is used next; a new one works, perhaps only after `mend`. */
  breakFast(): void;
  mend?(): void;
}

/** What an application has goes on when its connection moves: tests for every pair of transports. */
export function acrossAMove(makePair: (options: AutoOptions) => Promise<MovingPair>): void {
  /** Breaks the fast path. Resolves when it has been left, or the connection is over. */
  async function leave(pair: MovingPair): Promise<void> {
    const left = pathIs(pair.client, ({ fast }) => !fast);
    pair.breakFast();
    await Promise.race([left, pair.client.closed]);
    pair.mend?.();
  }

  test('one-sided memory keeps its descriptors, and every operation takes effect once', async () => {
    const pair = await makePair({});
    const { client, server } = pair;
    const owned = await server.expose(1 << 20, { read: true, write: true, atomic: true });
    const remote = client.attach(owned.descriptor);
    let added = 0;
    for (let round = 0; round < MOVES; round++) {
      await onFast(client);
      const work: Promise<unknown>[] = [];
      for (let n = 0; n < 20; n++) work.push(remote.fetchAdd(0, 1n).then(() => added++));
      work.push(remote.write(64, pattern(200_000, round)));
      const read = remote.read(64, 200_000);
      const left = leave(pair);
      await Promise.all(work);
      expectBytes(await read, pattern(200_000, round));
      expectBytes(owned.data.slice(64, 200_064), pattern(200_000, round));
      await left;
    }
    expect(new DataView(owned.data.buffer, owned.data.byteOffset).getBigUint64(0, true)).toBe(BigInt(added));
  });

  test('an application that does not read holds its peer back, and gets everything later', async () => {
    const pair = await makePair({ windowBytes: 100_000 });
    const { client, server } = pair;
    let sent = 0;
    const sends: Promise<void>[] = [];
    await onFast(client);
    while (client.stats().sendsWaiting === 0) sends.push(client.send(numbered(sent++, 1000)));
    const left = leave(pair);
    for (let n = 0; n < 50; n++) sends.push(client.send(numbered(sent++, 1000)));
    const drained = client.drain();
    expect((await take(server, sent)).map(numberOf)).toEqual(Array.from({ length: sent }, (_, n) => n));
    await Promise.all(sends);
    await drained;
    await left;
  });

  test('an application that does not read is sent no more than its window, however often the path changes', async () => {
    const windowBytes = 100_000;
    const pair = await makePair({ windowBytes });
    const { client, server } = pair;
    let sent = 0;
    const refill = async (): Promise<number> => {
      const more = await fill(client, (n) => numbered(sent + n, 1000));
      sent += more;
      return more;
    };
    await onFast(client);
    expect(await refill()).toBeGreaterThan(0);
    for (let round = 0; round < 3; round++) {
      await leave(pair);
      await onBase(client);
      expect(await refill()).toBe(0);
      await onFast(client);
      expect(await refill()).toBe(0);
    }
    expect(sent * 1000).toBeLessThanOrEqual(windowBytes + 1000);
    expect((await take(server, sent)).map(numberOf)).toEqual(Array.from({ length: sent }, (_, n) => n));
  });

  test('retained messages and leases stay valid', async () => {
    const pair = await makePair({});
    const { client, server } = pair;
    await onFast(client);
    const lease = client.allocate(5000);
    lease.data.set(pattern(5000));
    await client.send(pattern(20_000, 1));
    const kept = await new Promise<Uint8Array>((resolve) => {
      const detach = server.onMessage((message) => {
        message.retain();
        detach();
        resolve(message.data);
      });
    });
    const left = leave(pair);
    await client.send(lease);
    expectBytes((await take(server, 1))[0]!, pattern(5000));
    await left;
    expectBytes(kept, pattern(20_000, 1));
  });

  test('close delivers everything that was accepted', async () => {
    for (let round = 0; round < MOVES; round++) {
      const pair = await makePair({});
      await onFast(pair.client);
      const received: number[] = [];
      pair.server.onMessage((message) => received.push(numberOf(message.data)));
      const sends = Array.from({ length: 200 }, (_, n) => pair.client.send(numbered(n, 500)));
      const before = round % 2 === 0 ? leave(pair) : undefined;
      const closing = pair.client.close();
      await (before ?? leave(pair));
      expect(await closing).toEqual({ graceful: true, initiator: 'local' });
      expect(await pair.server.closed).toEqual({ graceful: true, initiator: 'remote' });
      await Promise.all(sends);
      expect(received).toEqual(Array.from({ length: 200 }, (_, n) => n));
    }
  });
}
