// What an application does from within the callbacks of a connection, and what those are told when it has ended.
import type { ProbeResult } from '@verbmq/core';
import { AutoTransport, type PathInfo } from '@verbmq/core/auto';
import { MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type AutoPair, asAuto, autoPair, onBase, onFast, QUICK } from '../support/auto-pair.js';
import { settled, turns } from '../support/expectations.js';
import { numbered } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { until } from '../support/until.js';

/** The base connection breaks, with nothing under way on it. */
function loseBase({ base, client }: AutoPair): void {
  base.cut();
  client.sendControl(new Uint8Array(16).fill(16, 0, 1));
}

describe('a handler of path changes', () => {
  test('that attaches another one each time is called once for each change', async () => {
    const { client, fast } = await autoPair();
    await onFast(client);
    let changes = 0;
    client.onPath(() => changes++);
    let calls = 0;
    const attach = (): void => {
      const detach = client.onPath(() => {
        detach();
        if (++calls < 1000) attach(); // else it would never end
      });
    };
    attach();
    fast.breakOnce();
    await client.send(numbered(1));
    await onBase(client);
    expect(changes).toBeGreaterThan(0);
    expect(calls).toBe(changes);
  });

  test('that another one has detached is not called any more', async () => {
    const { client, fast } = await autoPair();
    await onFast(client);
    const told: string[] = [];
    client.onPath(() => {
      told.push('first');
      detach();
    });
    const detach = client.onPath(() => told.push('second'));
    fast.breakOnce();
    await client.send(numbered(1));
    await onBase(client);
    expect(told).not.toContain('second');
  });

  test.each(['close', 'abort'] as const)('may %s: nobody is told anything more', async (how) => {
    for (const lose of ['base', 'fast'] as const) {
      const pair = await autoPair();
      const { client } = pair;
      await Promise.all([onFast(client), onFast(pair.server)]);
      if (lose === 'base') pair.fast.cut();
      const told: PathInfo[] = [];
      client.onPath((path) => {
        told.push(path);
        if (told.length === 1) void client[how]();
      });
      pair[lose].breakOnce();
      await settled(client.send(numbered(1)));
      await client.closed;
      expect(client.path.flowing).toBe(false);
      const { length } = told;
      await turns(50);
      expect(told.length).toBe(length);
    }
  });
});

test('a path is not told of when its connection has ended, though it was being asked for', async () => {
  class Asked extends MemoryTransport {
    probes = 0;
    code = 'no-device';
    answering: Promise<void> | undefined;
    override async probe(): Promise<ProbeResult<Record<string, never>>> {
      this.probes++;
      await this.answering;
      return { available: false, code: this.code, reason: 'there is none', remedy: 'buy one' };
    }
  }
  const base = new MemoryNetwork();
  const network = new MemoryNetwork();
  const asked = new Asked({ network });
  const make = (fast: MemoryTransport): AutoTransport => {
    const transport = new AutoTransport({ ...QUICK, base: new MemoryTransport({ network: base }), fast });
    onTestFinished(() => transport.close());
    return transport;
  };
  const listener = await make(asked).listen({ host: 'here', port: 1 });
  const accepted = nextConnection(listener);
  abortAfterTest(await make(new MemoryTransport({ network })).connect(listener.url));
  const server = asAuto(abortAfterTest(await accepted));
  let answer: () => void = () => {};
  asked.answering = new Promise((resolve) => {
    answer = resolve;
  });
  const { probes } = asked;
  await until(() => asked.probes > probes);
  server.abort();
  await server.closed;
  const told: PathInfo[] = [];
  server.onPath((path) => told.push(path));
  asked.code = 'memlock';
  answer();
  await turns(20);
  expect(told).toEqual([]);
  expect(server.path.flowing).toBe(false);
});

test('a message that was taken in the turn in which its session ends may have arrived or not', async () => {
  const pair = await autoPair({ both: { policy: 'tcp', resumeWindowMs: 0 } });
  let sent: Promise<void> | undefined;
  pair.client.onPath(() => {
    sent ??= pair.client.send(numbered(1));
  });
  loseBase(pair);
  const { error } = await pair.client.closed;
  await sent; // it was taken
  expect(error).toMatchObject({ reason: 'resume-off', outcome: 'unknown' });
});
