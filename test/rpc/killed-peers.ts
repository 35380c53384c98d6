import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import { describe, expect, onTestFinished, test } from 'vitest';
import { abortAfterTest, listenForTest, nextConnection, transportForTest } from '../support/pair.js';
import { type SetUp, stretched } from '../support/set-up.js';
import { collect, fired, until, verbmqErrorOf } from './support.js';

const PROGRAM = fileURLToPath(new URL('./rpc-peer.mjs', import.meta.url));

/** A death that no system call tells must be found by heartbeats within the test's time. */
const OPTIONS = { heartbeatIntervalMs: stretched(500), peerTimeoutMs: stretched(2000) };

/** What the peer serves, as its callers see it. */
type Served = {
  hang: () => Promise<void>;
  length: (body: Uint8Array) => number;
  make: (length: number) => Uint8Array;
  endless: () => AsyncIterable<Uint8Array>;
  swallow: (source: AsyncIterable<Uint8Array>) => Promise<void>;
};

interface Report {
  readonly event: string;
  readonly url?: string;
}

function start(task: object): { child: ChildProcess; told: (event: string) => Promise<Report> } {
  const child = fork(PROGRAM, [JSON.stringify(task)]);
  const reports: Report[] = [];
  child.on('message', (report: Report) => reports.push(report));
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const told = async (event: string): Promise<Report> => {
    for (;;) {
      const report = reports.find((each) => each.event === event);
      if (report !== undefined) return report;
      await Promise.race([once(child, 'message'), once(child, 'exit')]);
      if (child.exitCode !== null) throw new Error(`the peer exited before it told of ${event}`);
    }
  };
  return { child, told };
}

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield new Uint8Array(1000);
}

/** What becomes of calls when the process of one side is killed, in each phase of a call. */
export function killedPeers(name: string, setUp: SetUp): void {
  describe(`a peer that is killed, over ${name}`, () => phases(setUp));
}

function phases(setUp: SetUp): void {
  async function served() {
    const { child, told } = start({ role: 'serve', peer: setUp.peer, address: setUp.listenAddress() });
    const transport = transportForTest(setUp, OPTIONS);
    const near = abortAfterTest(await transport.connect((await told('listening')).url as string));
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
    const { child } = start({ role: 'call', peer: setUp.peer, url: listener.url });
    const far = abortAfterTest(await accepted);
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
