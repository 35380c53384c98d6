import type { Connection, Listener, RemoteMemory, Transport } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { type Outcome, outcomeOf } from '../../support/expectations.js';
import { fill, numbered } from '../../support/messages.js';
import { connectPair, listenForTest, type Pair, transportForTest } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';

type State = 'closing' | 'closed by its peer while it sends' | 'aborted' | 'closed' | 'lost';

/** Brings the client into a state and runs `check` in it. */
type Enter = (pair: Pair, check: () => Promise<void>) => Promise<void>;

const ENTER: Record<State, Enter> = {
  closing: async ({ client }, check) => {
    const closing = client.close();
    expect(client.state).toBe('closing');
    await check();
    await closing;
  },
  'closed by its peer while it sends': async ({ client, server }, check) => {
    server.onMessage(() => {});
    server.pause();
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = client.send(numbered(sent, length));
    const iterator = client.messages();
    const end = iterator.next();
    void server.close();
    expect(await end).toMatchObject({ done: true });
    expect(client.state).toBe('closing');
    await check();
    server.resume();
    await waiting;
    await client.closed;
  },
  aborted: async ({ client }, check) => {
    client.abort();
    await check();
    await client.closed;
  },
  closed: async ({ client }, check) => {
    await client.close();
    expect(client.state).toBe('closed');
    await check();
  },
  lost: async ({ client, server }, check) => {
    server.abort();
    await client.closed;
    await check();
  },
};

interface Row {
  readonly method: string;
  readonly call: (client: Connection, remote: RemoteMemory | undefined) => unknown;
  /** What it comes to in a state; `ERR_VERBMQ_CLOSED` where nothing is said. */
  readonly outcomes?: Partial<Record<State, Outcome>>;
  readonly needs?: 'oneSided' | 'atomics';
}

const ALWAYS: Record<State, Outcome> = {
  closing: 'ok',
  'closed by its peer while it sends': 'ok',
  aborted: 'ok',
  closed: 'ok',
  lost: 'ok',
};

const CONNECTION: Row[] = [
  { method: 'send', call: (client) => client.send(numbered(1)) },
  { method: 'send of nothing', call: (client) => client.send(new Uint8Array(0)) },
  { method: 'trySend', call: (client) => client.trySend(numbered(1)) },
  { method: 'allocate', call: (client) => client.allocate(10) },
  { method: 'expose', call: (client) => client.expose(10, { read: true }) },
  { method: 'attach', call: (client) => client.attach(DESCRIPTOR), needs: 'oneSided' },
  { method: 'read', call: (_, remote) => remote?.read(0, 8), needs: 'oneSided' },
  { method: 'write', call: (_, remote) => remote?.write(0, numbered(1)), needs: 'oneSided' },
  { method: 'readv', call: (_, remote) => remote?.readv([{ offset: 0, target: 8 }]), needs: 'oneSided' },
  {
    method: 'writev',
    call: (_, remote) => remote?.writev([{ offset: 0, data: numbered(1) }]),
    needs: 'oneSided',
  },
  { method: 'fetchAdd', call: (_, remote) => remote?.fetchAdd(0, 1n), needs: 'atomics' },
  { method: 'compareAndSwap', call: (_, remote) => remote?.compareAndSwap(0, 0n, 1n), needs: 'atomics' },
  {
    method: 'drain',
    call: (client) => void client.drain().catch(() => {}),
    outcomes: ALWAYS,
  },
  { method: 'onMessage', call: (client) => client.onMessage(() => {})(), outcomes: ALWAYS },
  { method: 'messages', call: (client) => client.messages().return?.(), outcomes: ALWAYS },
  { method: 'pause', call: (client) => client.pause(), outcomes: ALWAYS },
  { method: 'resume', call: (client) => client.resume(), outcomes: ALWAYS },
  { method: 'stats', call: (client) => client.stats(), outcomes: ALWAYS },
  { method: 'close', call: (client) => void client.close(), outcomes: ALWAYS },
];

/** A descriptor of nothing in particular: version 1, all access, 64 bytes, a key of 16 bytes. */
const DESCRIPTOR = (() => {
  const bytes = Buffer.alloc(34);
  bytes[0] = 1;
  bytes[1] = 7;
  bytes.writeBigUInt64LE(64n, 10);
  return bytes.toString('base64url');
})();

export function states(setUp: SetUp): void {
  for (const state of Object.keys(ENTER) as State[]) {
    test(`a connection that is ${state} answers every method as all transports do`, async () => {
      const pair = await connectPair(setUp);
      const remote = await remoteMemory(setUp, pair);
      await ENTER[state](pair, async () => {
        for (const row of CONNECTION) {
          if (row.needs !== undefined && setUp.capabilities[row.needs] === 'none') continue;
          const expected = row.outcomes?.[state] ?? 'ERR_VERBMQ_CLOSED';
          expect(await outcomeOf(() => row.call(pair.client, remote)), `${row.method} when ${state}`).toBe(
            expected,
          );
        }
      });
    });
  }

  describe('and', () => {
    test('drain of a connection that has ended is refused', async () => {
      const { client, server } = await connectPair(setUp);
      client.abort();
      expect(await outcomeOf(() => client.drain())).toBe('ERR_VERBMQ_CLOSED');
      await server.closed;
      expect(await outcomeOf(() => server.drain())).toBe('ERR_VERBMQ_CLOSED');
    });

    test('the error of a call on a lost connection has what ended it as its cause', async () => {
      const { client, server } = await connectPair(setUp);
      server.abort('the reason');
      const { error } = await client.closed;
      await expect(client.send(numbered(1))).rejects.toMatchObject({
        code: 'ERR_VERBMQ_CLOSED',
        cause: error,
      });
    });

    test('an ended connection is iterated to its end, in order or with its error', async () => {
      const { client, server } = await connectPair(setUp);
      await client.close();
      await server.closed;
      for (const side of [client, server]) for await (const _ of side) throw new Error('there is no message');
      const lost = await connectPair(setUp);
      lost.client.abort();
      await lost.server.closed;
      expect(await outcomeOf(() => lost.client.messages().next())).toBe('ERR_VERBMQ_ABORTED');
      expect(await outcomeOf(() => lost.server.messages().next())).toBe('ERR_VERBMQ_PEER_ABORTED');
    });

    test('a listener that is closed answers every method', async () => {
      const listener = await listenForTest(setUp);
      const closing = listener.close();
      await checkListener(listener);
      await closing;
      await checkListener(listener);
    });

    test('a transport that is closed refuses to listen and to connect, and answers the rest', async () => {
      const transport = transportForTest(setUp);
      const closing = transport.close();
      await checkTransport(setUp, transport);
      await closing;
      await checkTransport(setUp, transport);
    });
  });
}

async function remoteMemory(setUp: SetUp, { client, server }: Pair): Promise<RemoteMemory | undefined> {
  if (setUp.capabilities.oneSided === 'none') return undefined;
  const atomic = setUp.capabilities.atomics !== 'none';
  return client.attach((await server.expose(64, { read: true, write: true, atomic })).descriptor);
}

async function checkListener(listener: Listener): Promise<void> {
  const detach = listener.onConnection(() => {
    throw new Error('no connection comes any more');
  });
  detach();
  for await (const _ of listener) throw new Error('no connection comes any more');
  for await (const _ of listener) throw new Error('no connection comes any more');
  expect(listener.stats()).toEqual({ accepted: 0, failed: 0 });
  expect(await outcomeOf(() => listener.close())).toBe('ok');
}

async function checkTransport(setUp: SetUp, transport: Transport): Promise<void> {
  expect(await outcomeOf(() => transport.listen(setUp.listenAddress()))).toBe('ERR_VERBMQ_CLOSED');
  expect(await outcomeOf(() => transport.connect(setUp.deadAddress()))).toBe('ERR_VERBMQ_CLOSED');
  expect(await outcomeOf(() => transport.close())).toBe('ok');
  expect(transport.stats()).toMatchObject({ listeners: 0, connections: 0 });
}
