import type { Connection } from '@verbmq/core';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { abortAfterTest, listenForTest, nextConnection, transportForTest } from '../support/pair.js';
import { QUICK_HEARTBEATS as OPTIONS, startPeer } from '../support/scripted-peer.js';
import type { SetUp } from '../support/set-up.js';
import { collect, fired, until, verbmqErrorOf } from './support.js';

const PROGRAM = new URL('./rpc-peer.mjs', import.meta.url);

/** What the peer serves, as its callers see it. */
type Served = {
  hang: () => Promise<void>;
  length: (body: Uint8Array) => number;
  make: (length: number) => Uint8Array;
  endless: () => AsyncIterable<Uint8Array>;
  swallow: (source: AsyncIterable<Uint8Array>) => Promise<void>;
};

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield new Uint8Array(1000);
}

/**
 * What becomes of calls when the process of one side is killed, in each phase of a call.
 * @param ready what is waited for when there is a connection
 */
export function killedPeers(
  name: string,
  setUp: SetUp,
  ready: (connection: Connection) => Promise<unknown> = async () => {},
): void {
  describe(`a peer that is killed, over ${name}`, () => phases(setUp, ready));
}

function phases(setUp: SetUp, ready: (connection: Connection) => Promise<unknown>): void {
  async function served() {
    const { child, told } = startPeer(PROGRAM, {
      role: 'serve',
      peer: setUp.peer,
      address: setUp.listenAddress(),
    });
    const transport = transportForTest(setUp, OPTIONS);
    const near = abortAfterTest(await transport.connect((await told('listening')).url as string));
    await ready(near);
    return { child, told, near, api: client<Served>(near) };
  }

  const LOST = /ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/;

  test('before the request has left', async () => {
    const { child, near, api } = await served();
    await api.make(1);
    child.kill('SIGSTOP');
    const call = verbmqErrorOf(api.length(new Uint8Array(60_000_000)));
    await until(() => near.stats().messagesSent > 2);
    child.kill('SIGKILL');
    const error = await call;
    expect(error.code).toMatch(LOST);
    expect(error.outcome).toBe(undefined);
    expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
  });

  test('while the handler runs', async () => {
    const { child, told, near, api } = await served();
    const calls = [verbmqErrorOf(api.hang()), verbmqErrorOf(api.hang())];
    await told('started');
    child.kill('SIGKILL');
    for (const error of await Promise.all(calls)) {
      expect(error.code).toMatch(LOST);
      expect(error).toMatchObject({ outcome: 'unknown', retryable: false });
    }
    expect(rpcStats(near).pendingCalls).toBe(0);
    expect((await verbmqErrorOf(api.hang())).code).toBe('ERR_VERBMQ_CLOSED');
  });

  test('while a large answer arrives', async () => {
    const { child, near, api } = await served();
    await api.make(1);
    const call = verbmqErrorOf(api.make(60_000_000));
    await until(() => near.stats().bytesReceived > 1_000_000);
    child.kill('SIGKILL');
    const error = await call;
    expect(error.code).toMatch(LOST);
    expect(error.outcome).toBe('unknown');
  });

  test('while a stream arrives', async () => {
    const { child, near, api } = await served();
    const stream = api.endless.stream();
    for (let i = 0; i < 500; i++) await stream.next();
    child.kill('SIGKILL');
    const error = await verbmqErrorOf(collect(stream));
    expect(error.code).toMatch(LOST);
    expect(error.outcome).toBe('unknown');
    expect(rpcStats(near).pendingCalls).toBe(0);
  });

  test('while a stream is sent', async () => {
    const { child, told, near, api } = await served();
    const call = verbmqErrorOf(api.swallow(endless()));
    await told('started');
    child.kill('SIGKILL');
    const error = await call;
    expect(error.code).toMatch(LOST);
    expect(error.outcome).toBe('unknown');
    expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
  });

  test('a caller that is killed cancels everything that it asked for', async () => {
    const listener = await listenForTest(setUp, OPTIONS);
    const accepted = nextConnection(listener);
    const { child } = startPeer(PROGRAM, { role: 'call', peer: setUp.peer, url: listener.url });
    const far = abortAfterTest(await accepted);
    await ready(far);
    const ended: string[] = [];
    const server = serve(far, {
      hang: async (_: undefined, { signal }) => {
        await fired(signal);
        ended.push('hang');
      },
      async *endless(_: undefined, { signal }) {
        signal.addEventListener('abort', () => ended.push('endless'));
        for (;;) yield new Uint8Array(1000);
      },
      swallow: async (source: AsyncIterable<Uint8Array>) => {
        await collect(source).catch((error) => ended.push(`swallow ${error.code}`));
      },
      length: (body: Uint8Array) => {
        ended.push('length');
        return body.byteLength;
      },
    });
    await until(() => server.stats().running === 4);
    child.kill('SIGKILL');
    await until(() => ended.length === 3);
    expect(ended.sort().slice(0, 2)).toEqual(['endless', 'hang']);
    expect(ended[2]).toMatch(/^swallow ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)$/);
    expect(server.stats().running).toBe(0);
    expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
  });
}
