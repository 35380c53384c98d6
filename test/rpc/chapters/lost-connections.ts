import { type CallContext, rpcStats } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import type { SetUp } from '../../support/set-up.js';
import { collect, fired, from, Gate, served, until, verbmqErrorOf } from '../support.js';

export function lostConnections(setUp: SetUp): void {
  test('a call that had left fails with an unknown outcome, whoever ends the connection', async () => {
    for (const who of ['near', 'far'] as const) {
      const started = new Gate();
      const aborted = new Gate();
      const connections = await served(setUp, {
        hang: async (_: undefined, { signal }: CallContext) => {
          started.open();
          await fired(signal);
          aborted.open();
        },
      });
      const call = verbmqErrorOf(connections.api.hang());
      await started.opened;
      connections[who].abort('the test ends it');
      const error = await call;
      expect(error).toMatchObject({
        code: who === 'near' ? 'ERR_VERBMQ_ABORTED' : 'ERR_VERBMQ_PEER_ABORTED',
        outcome: 'unknown',
        retryable: false,
      });
      await aborted.opened;
      expect(rpcStats(connections.near).pendingCalls).toBe(0);
      await until(() => rpcStats(connections.far).runningCalls === 0);
    }
  });

  test('a call whose body had not left in full has no effect, and says so', async () => {
    let ran = 0;
    const { api, near } = await served(setUp, {
      length: (body: Uint8Array) => {
        ran++;
        return body.byteLength;
      },
    });
    const call = verbmqErrorOf(api.length(new Uint8Array(48 * 1024 * 1024)));
    await until(() => near.stats().messagesSent > 2);
    near.abort('in the middle');
    expect((await call).outcome).toBe(undefined);
    expect(ran).toBe(0);
  });

  test('a call that finds the connection ended, or ending, has not left', async () => {
    const { api, near } = await served(setUp, { one: () => 1 });
    await api.one();
    const closed = near.close();
    expect(await verbmqErrorOf(api.one())).toMatchObject({ code: 'ERR_VERBMQ_CLOSED', outcome: undefined });
    await closed;
    expect(await verbmqErrorOf(api.one())).toMatchObject({ code: 'ERR_VERBMQ_CLOSED', outcome: undefined });
  });

  test('calls that are pending when the connection is closed in order do not pend for ever', async () => {
    const started = new Gate();
    const { api, near } = await served(setUp, {
      hang: () => {
        started.open();
        return new Promise<void>(() => {});
      },
    });
    const call = verbmqErrorOf(api.hang());
    await started.opened;
    await near.close();
    expect(await call).toMatchObject({ code: 'ERR_VERBMQ_CLOSED', outcome: 'unknown' });
  });

  test('streams of every kind end on both sides', async () => {
    const ended: string[] = [];
    const watch = async (name: string, source: AsyncIterable<unknown>): Promise<void> => {
      try {
        await collect(source);
      } catch (error) {
        ended.push(`${name} ${(error as { code?: string }).code}`);
      }
    };
    const { api, near, far } = await served(setUp, {
      async *out() {
        try {
          yield 1;
          await new Promise(() => {});
        } finally {
          ended.push('never');
        }
      },
      async in(source: AsyncIterable<number>) {
        await watch('in', source);
      },
      async *both(source: AsyncIterable<number>) {
        yield 1;
        await watch('both', source);
      },
    });
    async function* open(): AsyncGenerator<number> {
      yield 1;
      await new Promise(() => {});
    }
    const out = api.out.stream();
    const both = api.both.stream(open());
    await out.next();
    await both.next();
    const calls = [verbmqErrorOf(collect(out)), verbmqErrorOf(collect(both)), verbmqErrorOf(api.in(open()))];
    await until(() => rpcStats(far).runningCalls === 3);
    near.abort('the test ends it');
    for (const error of await Promise.all(calls)) expect(error.outcome).toBe('unknown');
    await until(() => ended.length === 2);
    expect(ended.sort()).toEqual(['both ERR_VERBMQ_PEER_ABORTED', 'in ERR_VERBMQ_PEER_ABORTED']);
    expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
    expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
  });

  test('an answer that nobody can be given does no harm', async () => {
    const gate = new Gate();
    const done = new Gate();
    const { api, near, far, server } = await served(setUp, {
      async late() {
        await gate.opened;
        setImmediate(done.open);
        return from([1]);
      },
    });
    const call = verbmqErrorOf(collect(api.late.stream()));
    await until(() => server.stats().running === 1);
    near.abort('gone');
    await call;
    await far.closed;
    gate.open();
    await done.opened;
    expect(server.stats().running).toBe(0);
  });
}
