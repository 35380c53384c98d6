import { type CallContext, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { memorySetUp } from '../support/transports/memory.js';
import { collect, fired, type Served, served, until } from './support.js';

const ITEM_BYTES = 32_000;

const service = {
  async ignore(_: AsyncIterable<unknown>, { signal }: CallContext) {
    await fired(signal);
  },
  count: async (source: AsyncIterable<Uint8Array>) => (await collect(source)).length,
};

async function* items(count = Number.POSITIVE_INFINITY): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < count; n++) yield new Uint8Array(ITEM_BYTES);
}

/** Sends streams that nobody reads, and ends all of them when at least so many were refused, of those that did not find room. */
async function flood(
  { api, server, far }: Served<typeof service>,
  [accepted, refused]: [number, number],
  source: () => AsyncIterable<unknown>,
): Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const outcomes: string[] = [];
  const calls = Array.from({ length: accepted + refused }, () =>
    api.ignore(source(), { signal }).catch(({ code, reason, outcome, retryable }) => {
      outcomes.push(`${code} ${reason} ${outcome} ${retryable}`);
    }),
  );
  await until(() => outcomes.length >= refused);
  // The handler runs, and may have done anything.
  expect(new Set(outcomes)).toEqual(new Set(['ERR_VERBMQ_OVERLOADED bodies unknown false']));
  expect(server.stats().running).toBeGreaterThan(0);
  controller.abort();
  await Promise.all(calls);
  await until(() => rpcStats(far).runningCalls === 0);
}

/** Together 4 MiB may wait. */
const small = (): Promise<Served<typeof service>> =>
  served(memorySetUp(), service, { serve: { maxBodyBytes: 1024 * 1024 } });

async function expectAllGivenBack({ api, near }: Served<typeof service>): Promise<void> {
  for (let n = 0; n < 3; n++) expect(await api.count(items(300))).toBe(300);
  expect(near.state).toBe('open');
}

test('items that no handler reads are bounded for all streams of a connection together', async () => {
  const connected = await small();
  await flood(connected, [17, 20], items); // each holds its window of 256 KiB at most
  await expectAllGivenBack(connected);
});

test('so are those of streams that have come to their end', async () => {
  const connected = await small();
  await flood(connected, [19, 20], () => items(7));
  await expectAllGivenBack(connected);
});

test('they count as what they take, not as what they were sent as', async () => {
  const connected = await small();
  // 60 KB each, of arrays of which each takes as much as several bytes.
  await flood(connected, [1, 9], async function* () {
    yield new Array<never[]>(60_000).fill([]);
  });
  await expectAllGivenBack(connected);
});

test('what a handler reads after its stream has ended is its own, and counts no more', async () => {
  const connected = await small();
  for (let n = 0; n < 30; n++) expect(await connected.api.count(items(7))).toBe(7);
  await expectAllGivenBack(connected);
});
