import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { acrossAMove } from '../support/across-a-move.js';
import { autoPair, onBase, onFast, pathIs } from '../support/auto-pair.js';
import { turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { type NumberedStream, streamsBetween } from '../support/numbered-stream.js';
import { until } from '../support/until.js';

/** Messages both ways, of up to so many bytes. */
function streams(pair: Awaited<ReturnType<typeof autoPair>>, maxBytes = 30_000): NumberedStream[] {
  return streamsBetween(pair.client, pair.server, maxBytes).traffic;
}

const all = (of: NumberedStream[], what: (stream: NumberedStream) => Promise<void>): Promise<unknown> =>
  Promise.all(of.map(what));

describe('a connection that both sides can move', () => {
  test('begins on the base and moves to the fast path', async () => {
    const { client, server } = await autoPair();
    expect(client.path).toMatchObject({ kind: 'memory', fast: false, flowing: true, reason: 'negotiating' });
    expect(await onFast(client)).toEqual({ kind: 'memory', fast: true, flowing: true });
    expect(await onFast(server)).toEqual({ kind: 'memory', fast: true, flowing: true });
  });

  test('carries the first messages before the fast path is there', async () => {
    const { client, server, fast } = await autoPair();
    let connect: () => void = () => {};
    fast.verdict = new Promise((resolve) => {
      connect = resolve;
    });
    await client.send(numbered(1));
    expect(numberOf((await take(server, 1))[0]!)).toBe(1);
    expect(client.path.fast).toBe(false);
    fast.verdict = 'deliver';
    connect();
    await onFast(client);
  });

  test('goes on in the middle of traffic both ways', async () => {
    const pair = await autoPair();
    const traffic = streams(pair);
    await onFast(pair.client);
    await onFast(pair.server);
    await all(traffic, (stream) => stream.progress(50));
    await all(traffic, (stream) => stream.finish());
  });
});

describe('a fast path that fails', () => {
  test('in the middle of traffic loses, repeats and reorders nothing, and is used again when it works', async () => {
    const pair = await autoPair();
    const traffic = streams(pair);
    for (let round = 0; round < 20; round++) {
      await onFast(pair.client);
      await all(traffic, (stream) => stream.progress(Math.floor(Math.random() * 40)));
      pair.fast.breakOnce();
      await pathIs(pair.client, ({ fast }) => !fast);
    }
    await all(traffic, (stream) => stream.finish());
    await onFast(pair.client);
  });

  test('by silence is found, while the base works', async () => {
    const pair = await autoPair();
    const traffic = streams(pair);
    await onFast(pair.client);
    pair.fast.silence();
    const { reason } = await onBase(pair.client);
    expect(['broken', 'peer-declined', 'negotiating', 'probe-failed']).toContain(reason);
    await all(traffic, (stream) => stream.progress(100));
    pair.fast.heal();
    await onFast(pair.client);
    await all(traffic, (stream) => stream.finish());
  });

  test('and does not come back leaves the connection on its base, with the reason', async () => {
    const pair = await autoPair();
    const traffic = streams(pair);
    await onFast(pair.client);
    pair.fast.cut();
    await pathIs(pair.client, ({ reason }) => reason === 'unreachable');
    await all(traffic, (stream) => stream.progress(100));
    await all(traffic, (stream) => stream.finish());
    expect(pair.client.path).toMatchObject({ fast: false, flowing: true });
  });

  test('is tried again with pauses, not at once', async () => {
    const pair = await autoPair({ client: { minFastRetryMs: 60_000, maxFastRetryMs: 60_000 } });
    await onFast(pair.client);
    const before = pair.fast.attempts.length;
    pair.fast.breakOnce();
    await pair.client.send(numbered(1));
    await onBase(pair.client);
    await pair.client.send(numbered(2));
    expect((await take(pair.server, 2)).map(numberOf)).toEqual([1, 2]);
    expect(pair.fast.attempts.length).toBe(before);
  });
});

describe('a fast path that flaps', () => {
  test('is left alone for longer each time, until it has lasted', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const longest = vi.spyOn(Math, 'random').mockReturnValue(1); // each pause is as long as it may be
    onTestFinished(() => longest.mockRestore());
    const { client, fast } = await autoPair({ client: { minFastRetryMs: 1000, maxFastRetryMs: 8000 } });
    await onFast(client);
    const expectPause = async (ms: number): Promise<void> => {
      fast.breakOnce();
      await client.send(numbered(1));
      await onBase(client);
      const { length } = fast.attempts;
      await vi.advanceTimersByTimeAsync(ms - 1);
      await turns(20);
      expect(fast.attempts.length, `attempts within ${ms} ms`).toBe(length);
      await vi.advanceTimersByTimeAsync(1);
      await onFast(client);
      expect(fast.attempts.length).toBe(length + 1);
    };
    for (const ms of [1000, 2000, 4000, 8000, 8000]) await expectPause(ms);
    await vi.advanceTimersByTimeAsync(8000);
    await expectPause(8000); // it had not lasted for longer than the longest pause
    await vi.advanceTimersByTimeAsync(8001);
    for (const ms of [1000, 2000]) await expectPause(ms);
  });
});

describe('across a move', () => {
  acrossAMove(async (both) => {
    const { client, server, fast } = await autoPair({ both });
    return { client, server, breakFast: () => fast.breakOnce() };
  });

  test('what is kept for a repetition is given back when traffic ends', async () => {
    const pair = await autoPair();
    const traffic = streams(pair);
    await all(traffic, (stream) => stream.progress(100));
    await all(traffic, (stream) => stream.finish());
    await until(() => pair.client.session.keptBytes === 0 && pair.server.session.keptBytes === 0);
  });
});
