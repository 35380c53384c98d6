import { type RpcServer, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { turns } from '../../support/expectations.js';
import type { SetUp } from '../../support/set-up.js';
import { collect, served, until } from '../support.js';

const MIB = 1024 * 1024;
const ITEM_BYTES = 60_000;
const STREAMS = 200;
/** What may wait of such items, with one that came last and the least frames of all streams. */
const MOST_BYTES = MIB + 2 * ITEM_BYTES + STREAMS * 1024;

/** The calls that have come; some streams may have ended, for the transport takes much before anybody reads. */
const begun = (server: RpcServer): number => server.stats().running + server.stats().handled;

/** The same is said of both directions: how many streams there are is nothing to the memory of the side that sends. */
export function unreadStreams(setUp: SetUp): void {
  test('answers do not pile up for a caller that does not read, and all arrive when it does', async () => {
    const { api, server, near, far } = await served(setUp, {
      async *two() {
        for (let n = 0; n < 2; n++) yield new Uint8Array(ITEM_BYTES).fill(n);
      },
      one: () => 1,
    });
    await api.one();
    near.pause();
    const streams = Array.from({ length: STREAMS }, () => api.two.stream());
    await until(() => begun(server) > STREAMS);
    await turns(20);
    expect(rpcStats(far).backlogBytes).toBeLessThan(MOST_BYTES);
    near.resume();
    for (const items of await Promise.all(streams.map(collect))) {
      expect(items.map((item) => [item.byteLength, item[0]])).toEqual([
        [ITEM_BYTES, 0],
        [ITEM_BYTES, 1],
      ]);
    }
    await until(() => server.stats().running === 0);
    expect(rpcStats(far).backlogBytes).toBe(0);
  });

  test('requests do not pile up for a server that does not read, and all arrive when it does', async () => {
    const { api, near, far } = await served(setUp, {
      async length(source: AsyncIterable<Uint8Array>) {
        let length = 0;
        for await (const item of source) length += item.byteLength;
        return length;
      },
      one: () => 1,
    });
    await api.one();
    far.pause();
    async function* two(): AsyncGenerator<Uint8Array> {
      for (let n = 0; n < 2; n++) yield new Uint8Array(ITEM_BYTES);
    }
    const lengths = Array.from({ length: STREAMS }, () => api.length(two()));
    await turns(20);
    expect(rpcStats(near).backlogBytes).toBeLessThan(MOST_BYTES);
    far.resume();
    for (const length of await Promise.all(lengths)) expect(length).toBe(2 * ITEM_BYTES);
    expect(rpcStats(near).backlogBytes).toBe(0);
  });

  test('long items are bounded by themselves, as the server has chosen', async () => {
    const maxBacklogBytes = 2 * MIB;
    const { api, server, near, far } = await served(
      setUp,
      {
        async *long() {
          yield new Uint8Array(MIB);
        },
        one: () => 1,
      },
      { serve: { maxBacklogBytes } },
    );
    await api.one();
    near.pause();
    const streams = Array.from({ length: 12 }, () => api.long.stream());
    await until(() => begun(server) > 12);
    await turns(20);
    expect(rpcStats(far).backlogBytes).toBeLessThan(maxBacklogBytes + MIB + 200_000);
    near.resume();
    for (const items of await Promise.all(streams.map(collect))) {
      expect(items.map((item) => item.byteLength)).toEqual([MIB]);
    }
    expect(rpcStats(far).backlogBytes).toBe(0);
  });

  test('a stream that is left while it waits for its turn is over, and the others go on', async () => {
    let cleanedUp = 0;
    const { api, server, near } = await served(setUp, {
      async *two() {
        try {
          for (let n = 0; n < 2; n++) yield new Uint8Array(ITEM_BYTES);
        } finally {
          cleanedUp++;
        }
      },
      one: () => 1,
    });
    await api.one();
    near.pause();
    const streams = Array.from({ length: STREAMS }, () => api.two.stream());
    await until(() => begun(server) > STREAMS);
    for (const [n, stream] of streams.entries()) if (n % 2 === 0) await stream.return();
    near.resume();
    const read = streams.filter((_, n) => n % 2 !== 0);
    for (const items of await Promise.all(read.map(collect))) expect(items.length).toBe(2);
    await until(() => server.stats().running === 0);
    expect(cleanedUp).toBeGreaterThanOrEqual(read.length);
    expect(await api.one()).toBe(1);
  });

  test('sources that have nothing for long do not keep others from theirs', async () => {
    const { api } = await served(setUp, {
      async *never() {
        await new Promise(() => {});
        yield 1;
      },
      async *soon(n: number) {
        yield n;
        yield n + 1;
      },
    });
    const silent = Array.from({ length: STREAMS }, () => api.never.stream().next());
    for (const next of silent) next.catch(() => {});
    const read = await Promise.all(Array.from({ length: STREAMS }, (_, n) => collect(api.soon.stream(n))));
    expect(read).toEqual(Array.from({ length: STREAMS }, (_, n) => [n, n + 1]));
  });
}
