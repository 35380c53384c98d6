import type { Connection } from '@verbmq/core';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { collect, fired, Gate, until, verbmqErrorOf } from './support.js';

export interface Killable {
  readonly client: Connection;
  readonly server: Connection;
  /** All paths are lost at once, and none comes back: what a peer sees of one that is killed. */
  kill(): void;
}

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield new Uint8Array(1000);
}

/** What becomes of calls when the peer dies, in each phase of a call, at both sides. */
export function deadPaths(make: () => Promise<Killable>): void {
  async function served() {
    const { client: near, server: far, kill } = await make();
    const started = new Gate();
    const ended: string[] = [];
    const service = {
      hang: async (_: undefined, { signal }: { signal: AbortSignal }) => {
        started.open();
        await fired(signal);
        ended.push('hang');
      },
      length: (body: Uint8Array) => body.byteLength,
      make: (length: number) => new Uint8Array(length),
      async *endless(_: undefined, { signal }: { signal: AbortSignal }) {
        signal.addEventListener('abort', () => ended.push('endless'));
        for (;;) yield new Uint8Array(1000);
      },
      swallow: async (source: AsyncIterable<Uint8Array>) => {
        let count = 0;
        for await (const _ of source) if (++count === 10) started.open();
      },
    };
    const server = serve(far, service);
    const api = client<typeof service>(near);
    expect(await api.length(new Uint8Array(7))).toBe(7);
    /** Nothing is left at either side. */
    const over = async (): Promise<void> => {
      await Promise.all([near.closed, far.closed]);
      expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
      await until(() => server.stats().running === 0);
      expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
    };
    return { near, far, kill, api, started: started.opened, ended, over };
  }

  const LOST = { code: expect.stringMatching(/ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/) };

  test('before the request has left', async () => {
    const { near, far, kill, api, over } = await served();
    far.pause();
    const { messagesSent } = near.stats();
    const call = verbmqErrorOf(api.length(new Uint8Array(60_000_000)));
    await until(() => near.stats().messagesSent > messagesSent + 1);
    kill();
    expect(await call).toMatchObject({ ...LOST, outcome: undefined });
    far.resume();
    await over();
  });

  test('while the handler runs', async () => {
    const { kill, api, started, ended, over } = await served();
    const calls = [verbmqErrorOf(api.hang()), verbmqErrorOf(api.hang())];
    await started;
    kill();
    for (const error of await Promise.all(calls))
      expect(error).toMatchObject({ ...LOST, outcome: 'unknown', retryable: false });
    await over();
    expect(ended).toEqual(['hang', 'hang']);
    expect((await verbmqErrorOf(api.hang())).code).toBe('ERR_VERBMQ_CLOSED');
  });

  test('while a large answer arrives', async () => {
    const { near, kill, api, over } = await served();
    const { bytesReceived } = near.stats();
    const call = verbmqErrorOf(api.make(60_000_000));
    await until(() => near.stats().bytesReceived > bytesReceived + 1_000_000);
    kill();
    expect(await call).toMatchObject({ ...LOST, outcome: 'unknown' });
    await over();
  });

  test('while a stream arrives', async () => {
    const { kill, api, ended, over } = await served();
    const stream = api.endless.stream();
    for (let i = 0; i < 500; i++) await stream.next();
    kill();
    expect(await verbmqErrorOf(collect(stream))).toMatchObject({ ...LOST, outcome: 'unknown' });
    await over();
    expect(ended).toEqual(['endless']);
  });

  test('while a stream is sent', async () => {
    const { kill, api, started, over } = await served();
    const call = verbmqErrorOf(api.swallow(endless()));
    await started;
    kill();
    expect(await call).toMatchObject({ ...LOST, outcome: 'unknown' });
    await over();
  });
}
