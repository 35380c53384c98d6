// A caller whose answers wait is sent away when it does not read them, and not because nothing could pass.
import type { Connection } from '@verbmq/core';
import { type Client, client, type RpcServer, serve } from '@verbmq/core/rpc';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { autoPair, onBase, pathIs } from '../support/auto-pair.js';
import { memorySetUp } from '../support/transports/memory.js';
import { served, until } from './support.js';

const BYTES = 60_000;
const MAX_BACKLOG_BYTES = 200_000;
const service = { large: () => new Uint8Array(BYTES) };

type Outcome = number | string;

function outcomeOf(call: Promise<Uint8Array>): Promise<Outcome> {
  return call.then(
    ({ byteLength }) => byteLength,
    ({ code, reason }) => `${code} ${reason}`,
  );
}

/** Calls while the caller does not read, until so much waits that a call is refused. */
async function callUntilRefused(api: Client<typeof service>, server: RpcServer): Promise<Promise<Outcome>[]> {
  const calls: Promise<Outcome>[] = [];
  while (server.stats().refused === 0) {
    calls.push(outcomeOf(api.large()));
    await until(() => server.stats().handled + server.stats().refused === calls.length);
  }
  return calls;
}

/** All were answered but the last of `calls`, and perhaps `late`, which may have come before anything could leave. */
async function expectRefusals(calls: Promise<Outcome>[], late: Promise<Outcome>, near: Connection) {
  const refused = 'ERR_VERBMQ_OVERLOADED backlog';
  expect([refused, BYTES]).toContain(await late);
  const outcomes = await Promise.all(calls);
  expect(outcomes.pop()).toBe(refused);
  expect(new Set(outcomes)).toEqual(new Set([BYTES]));
  expect(near.state).toBe('open');
}

describe('a caller for whom answers wait keeps its connection', () => {
  test('when its server was busy with something else for longer than they may wait', async () => {
    const backlogTimeoutMs = 200;
    const { api, near, server } = await served(memorySetUp(), service, {
      serve: { maxBacklogBytes: MAX_BACKLOG_BYTES, backlogTimeoutMs },
    });
    near.pause();
    const calls = await callUntilRefused(api, server);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, backlogTimeoutMs + 50);
    near.resume();
    await expectRefusals(calls, outcomeOf(api.large()), near); // it is ahead of the word that there is room
  });

  test('when its session was resumed after a time in which nothing could leave', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const {
      client: near,
      server: far,
      base,
    } = await autoPair({
      both: { policy: 'tcp', windowBytes: 100_000, resumeWindowMs: 60_000 },
    });
    const server = serve(far, service, { maxBacklogBytes: MAX_BACKLOG_BYTES });
    const api = client<typeof service>(near);
    near.pause();
    const calls = await callUntilRefused(api, server);
    base.cut();
    near.resume(); // it reads what has come, and is the first to say something
    await pathIs(near, ({ flowing }) => !flowing);
    base.connecting = 'ignore';
    const late = outcomeOf(api.large());
    await vi.advanceTimersByTimeAsync(15_000);
    base.heal();
    await vi.advanceTimersByTimeAsync(15_000); // the attempt that hangs is given up meanwhile
    await onBase(near);
    await expectRefusals(calls, late, near);
  });
});
