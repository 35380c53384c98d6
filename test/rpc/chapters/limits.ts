import { client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { abortAfterTest, listenForTest, transportForTest } from '../../support/pair.js';
import { inGuest, type SetUp, stretched } from '../../support/set-up.js';
import { Gate, served, until, verbmqErrorOf } from '../support.js';

export function limits(setUp: SetUp): void {
  test('calls beyond what the server runs at a time are refused, and may be tried again', async () => {
    const gate = new Gate();
    let ran = 0;
    const { api, server } = await served(
      setUp,
      {
        wait: async () => {
          ran++;
          await gate.opened;
        },
      },
      { serve: { maxConcurrentCalls: 3 } },
    );
    const running = [api.wait(), api.wait(), api.wait()];
    const error = await verbmqErrorOf(api.wait());
    expect(error).toMatchObject({
      code: 'ERR_VERBMQ_OVERLOADED',
      reason: 'concurrency',
      retryable: true,
      outcome: undefined,
    });
    expect(ran).toBe(3);
    gate.open();
    await Promise.all(running);
    await until(() => server.stats().running === 0);
    await api.wait();
    expect(server.stats()).toMatchObject({ refused: 1, handled: 4 });
  });

  test('the limit is one for all connections of a server', async () => {
    const gate = new Gate();
    const listener = await listenForTest(setUp);
    const service = { wait: () => gate.opened };
    const server = serve(listener, service, { maxConcurrentCalls: 3 });
    const transport = transportForTest(setUp);
    const connect = async () => client<typeof service>(abortAfterTest(await transport.connect(listener.url)));
    const [one, other] = [await connect(), await connect()];
    const running = [one.wait(), one.wait(), other.wait()];
    await until(() => server.stats().running === 3);
    for (const api of [one, other]) {
      expect(await verbmqErrorOf(api.wait())).toMatchObject({
        code: 'ERR_VERBMQ_OVERLOADED',
        reason: 'concurrency',
        retryable: true,
      });
    }
    gate.open();
    await Promise.all(running);
    await until(() => server.stats().running === 0);
    await Promise.all([one.wait(), other.wait()]);
    expect(server.stats()).toMatchObject({ connections: 2, refused: 2, handled: 5 });
  });

  test('one connection cannot take all of it', async () => {
    const { api } = await served(
      setUp,
      { wait: () => new Promise<void>(() => {}) },
      { serve: { maxConcurrentCallsPerConnection: 1 } },
    );
    api.wait().catch(() => {});
    expect((await verbmqErrorOf(api.wait())).reason).toBe('concurrency');
  });

  test('a client does not hold more calls than it may', async () => {
    const gate = new Gate();
    const { api, near } = await served(
      setUp,
      { wait: () => gate.opened },
      { client: { maxPendingCalls: 2 } },
    );
    const calls = [api.wait(), api.wait()];
    expect(await verbmqErrorOf(api.wait())).toMatchObject({
      code: 'ERR_VERBMQ_OVERLOADED',
      reason: 'pending-calls',
    });
    gate.open();
    await Promise.all(calls);
    await api.wait();
    expect(rpcStats(near).pendingCalls).toBe(0);
  });

  test('a caller whose answers wait is refused with the reason backlog, until it has read them', async () => {
    const maxBacklogBytes = 1024 * 1024;
    const { api, near, far, server } = await served(
      setUp,
      { large: () => new Uint8Array(60_000) },
      { serve: { maxBacklogBytes } },
    );
    await api.large();
    near.pause();
    const calls: Promise<Uint8Array>[] = [];
    let waiting = 0;
    // What waits may leave after all, where the connection's path changes or is slow.
    while (server.stats().refused === 0) {
      waiting = rpcStats(far).backlogBytes;
      calls.push(api.large());
      await until(() => server.stats().handled + server.stats().refused === calls.length + 1);
      if (server.stats().refused === 0)
        expect(rpcStats(far).backlogBytes).toBeLessThan(maxBacklogBytes + 61_000);
    }
    expect(waiting).toBeGreaterThan(maxBacklogBytes);
    const refused = verbmqErrorOf(calls.pop() as Promise<Uint8Array>);
    near.resume();
    expect(await refused).toMatchObject({
      code: 'ERR_VERBMQ_OVERLOADED',
      reason: 'backlog',
      retryable: true,
      outcome: undefined,
    });
    for (const body of await Promise.all(calls)) expect(body.byteLength).toBe(60_000);
    expect((await api.large()).byteLength).toBe(60_000);
    expect(server.stats()).toMatchObject({ refused: 1 });
  });

  test('a caller that does not read its answers is refused, and sent away at last', async () => {
    let ran = 0;
    const { api, near, far } = await served(
      setUp,
      {
        large: () => {
          ran++;
          return new Uint8Array(60_000);
        },
      },
      { serve: { maxBacklogBytes: 1024 * 1024, backlogTimeoutMs: stretched(100) } },
    );
    await api.large();
    near.pause();
    const calls: Promise<string>[] = [];
    while (far.state === 'open') {
      const call = api.large();
      calls.push(
        call.then(
          () => 'answered',
          (error) => `${error.code} ${error.reason}`,
        ),
      );
      await new Promise((resolve) => setImmediate(resolve));
      if (near.state !== 'open') break;
    }
    near.resume();
    const outcomes = new Set(await Promise.all(calls));
    expect(ran).toBeLessThan(400); // what the connection holds at most, and the backlog
    expect([...outcomes].some((outcome) => outcome.startsWith('ERR_VERBMQ_'))).toBe(true);
  });

  test('a caller that reads at full speed keeps its connection, however many answers wait for it', async () => {
    const gate = new Gate();
    const length = 4_000_000; // together more than a transport takes at once
    const { api, near } = await served(
      setUp,
      {
        large: async () => {
          await gate.opened;
          return new Uint8Array(length);
        },
        small: () => 'small',
      },
      { serve: { maxBacklogBytes: 100_000 } },
    );
    const large = [1, 2, 3, 4, 5].map(() => api.large());
    await api.small();
    gate.open();
    let arrived = false;
    const all = Promise.all(large).finally(() => {
      arrived = true;
    });
    const outcomes = new Set<string>();
    while (!arrived) {
      const calls = [1, 2, 3].map(() => api.small().catch((error) => `${error.code} ${error.reason}`));
      for (const outcome of await Promise.all(calls)) outcomes.add(outcome);
    }
    expect((await all).map((answer) => answer.byteLength)).toEqual(large.map(() => length));
    outcomes.delete('small');
    expect([...outcomes]).toEqual(['ERR_VERBMQ_OVERLOADED backlog']);
    expect(near.state).toBe('open');
    expect(await api.small()).toBe('small');
  });

  test('what a side sends as a caller is not counted among its answers', async () => {
    const { api, near, far } = await served(setUp, { length: (body: Uint8Array) => body.byteLength });
    const service = { ping: () => 'pong' };
    serve(near, service, { maxBacklogBytes: 1000 });
    const back = client<typeof service>(far);
    const length = inGuest ? 1_000_000 : 20_000_000;
    const upload = api.length(new Uint8Array(length));
    expect(rpcStats(near).backlogBytes).toBeGreaterThan(length / 10);
    expect(await back.ping()).toBe('pong');
    expect(await upload).toBe(length);
  });
}
