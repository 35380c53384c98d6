import { type CallContext, client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { isPending, turns } from '../../support/expectations.js';
import { listenForTest, transportForTest } from '../../support/pair.js';
import { type SetUp, stretched } from '../../support/set-up.js';
import { collect, fired, Gate, served, until, verbmqErrorOf } from '../support.js';

export function draining(setUp: SetUp): void {
  test('what runs is answered, what comes is refused', async () => {
    const gate = new Gate();
    const { api, server } = await served(setUp, {
      async wait() {
        await gate.opened;
        return 'answered';
      },
      async *stream() {
        yield 1;
        await gate.opened;
        yield 2;
      },
    });
    const call = api.wait();
    const stream = api.stream.stream();
    expect(await stream.next()).toEqual({ done: false, value: 1 });
    const drained = server.drain();
    expect(await verbmqErrorOf(api.wait())).toMatchObject({
      code: 'ERR_VERBMQ_OVERLOADED',
      reason: 'draining',
      retryable: true,
    });
    await turns();
    expect(await isPending(drained)).toBe(true);
    gate.open();
    expect(await call).toBe('answered');
    expect(await collect(stream)).toEqual([2]);
    await drained;
    expect(server.stats().running).toBe(0);
  });

  test('what does not end in time is given up, and its caller told', async () => {
    let reason: unknown;
    const { api, server } = await served(setUp, {
      hang: async (_: undefined, { signal }: CallContext) => {
        await fired(signal);
        reason = signal.reason;
      },
      now: () => 1,
    });
    const call = verbmqErrorOf(api.hang());
    await api.now();
    await server.drain(stretched(30));
    expect(await call).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: 'unknown' });
    expect((reason as Error).message).toMatch(/shut down/);
  });

  test('a caller that reads nothing does not keep a server from draining and closing in time', async () => {
    const { api, near, far, server } = await served(
      setUp,
      { large: () => new Uint8Array(60_000) },
      { pair: { both: { closeTimeoutMs: stretched(100) } } },
    );
    near.pause();
    while (rpcStats(far).runningCalls === 0) {
      api.large().catch(() => {}); // the answers that the connection has no room for wait
      await turns(1);
    }
    await server.drain(1);
    await server.close(1);
    expect(far.state).toBe('closed');
  });

  test('a handler that closes the server before it has returned is answered', async () => {
    const gate = new Gate();
    let closed: Promise<void> | undefined;
    const { api, server, near } = await served(setUp, {
      async shutDown() {
        closed = server.close();
        await gate.opened;
        return 'done';
      },
    });
    const answer = api.shutDown();
    await until(() => closed !== undefined);
    await turns();
    expect(near.state).toBe('open');
    gate.open();
    expect(await answer).toBe('done');
    await closed;
    expect((await near.closed).graceful).toBe(true);
  });

  test('a server that has nothing to do is drained at once', async () => {
    const { server, api } = await served(setUp, { one: () => 1 });
    await api.one();
    await server.drain();
    await server.drain();
  });

  test('close() ends listener and connections in order, with everything answered', async () => {
    const listener = await listenForTest(setUp);
    const gate = new Gate();
    const service = {
      async wait() {
        await gate.opened;
        return new Uint8Array(300_000).fill(1);
      },
      now: () => 1,
    };
    const server = serve(listener, service);
    const connection = await transportForTest(setUp).connect(listener.url);
    const api = client<typeof service>(connection);
    const call = api.wait();
    await api.now();
    const closed = server.close();
    gate.open();
    expect((await call).byteLength).toBe(300_000);
    await closed;
    expect(await connection.closed).toMatchObject({ graceful: true, initiator: 'remote' });
    expect((await verbmqErrorOf(api.now())).code).toBe('ERR_VERBMQ_CLOSED');
  });
}
