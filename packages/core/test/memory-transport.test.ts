import { describe, expect, onTestFinished, test } from 'vitest';
import type { Connection, ConnectionOptions, Message } from '../src/index.js';
import { type MemoryFaults, MemoryNetwork, MemoryTransport } from '../src/memory-transport/index.js';

interface Sides {
  readonly client?: MemoryFaults;
  readonly server?: MemoryFaults;
  readonly options?: ConnectionOptions;
}

/** Two transports with the given faults, and a listener. */
async function makeSides({ client = {}, server = {}, options = {} }: Sides) {
  const network = new MemoryNetwork();
  const clientTransport = new MemoryTransport({ ...options, network, faults: client });
  const serverTransport = new MemoryTransport({ ...options, network, faults: server });
  const listener = await serverTransport.listen('memory://service');
  const accepted = new Promise<Connection>((resolve) => listener.onConnection(resolve));
  onTestFinished(async () => {
    await Promise.all([clientTransport.close(), serverTransport.close()]);
  });
  return { clientTransport, serverTransport, accepted };
}

async function connect(sides: Sides) {
  const { clientTransport, accepted } = await makeSides(sides);
  const client = await clientTransport.connect('memory://service');
  const server = await accepted;
  onTestFinished(() => {
    client.abort();
    server.abort();
  });
  return { client, server };
}

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'ok',
    (error: { code: string }) => error.code,
  );

/** A gate that a fault waits at. */
function makeGate() {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

const numbers = (...values: number[]): Uint8Array => Uint8Array.of(...values);

describe('a fault of connect', () => {
  test('refuses', async () => {
    const { clientTransport } = await makeSides({ client: { connect: () => 'refuse' } });
    expect(await codeOf(clientTransport.connect('memory://service'))).toBe('ERR_VERBMQ_CONNECT_FAILED');
  });

  test('loses the connection that the peer has already', async () => {
    const { clientTransport, accepted } = await makeSides({ client: { connect: () => 'lose' } });
    expect(await codeOf(clientTransport.connect('memory://service'))).toBe('ERR_VERBMQ_CONNECT_FAILED');
    expect((await (await accepted).closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
  });

  test('ignores, so that only the deadline or the signal ends it', async () => {
    const { clientTransport } = await makeSides({ client: { connect: () => 'ignore' } });
    const attempt = clientTransport.connect('memory://service', { timeoutMs: 10 });
    expect(await codeOf(attempt)).toBe('ERR_VERBMQ_CONNECT_TIMEOUT');
    const controller = new AbortController();
    const other = codeOf(clientTransport.connect('memory://service', { signal: controller.signal }));
    controller.abort();
    expect(await other).toBe('ERR_VERBMQ_CANCELLED');
  });
});

describe('a fault of frames', () => {
  test('loses the connection in place of the third message, on both sides', async () => {
    const { client, server } = await connect({
      client: { frame: ({ kind, index }) => (kind === 'message' && index === 2 ? 'lose' : 'deliver') },
    });
    const received: number[] = [];
    server.onMessage((message) => void received.push(message.data[0]!));
    for (let n = 0; n < 5; n++) client.send(numbers(n)).catch(() => {});
    expect((await client.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
    expect((await server.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
    expect(received).toEqual([0, 1]);
  });

  test('loses the connection within a large message that was lent, and fails its sender', async () => {
    const { client, server } = await connect({
      client: { frame: ({ kind }) => (kind === 'message' ? 'lose' : 'deliver') },
    });
    expect(await codeOf(client.send(new Uint8Array(500_000)))).toBe('ERR_VERBMQ_CONNECTION_LOST');
    expect((await server.closed).graceful).toBe(false);
    expect(server.stats().messagesReceived).toBe(0);
  });

  test('loses the connection when it is being closed', async () => {
    const { client, server } = await connect({
      server: { frame: ({ kind }) => (kind === 'close' ? 'lose' : 'deliver') },
    });
    await client.send(numbers(1));
    expect(await client.close()).toMatchObject({
      graceful: false,
      error: { code: 'ERR_VERBMQ_CONNECTION_LOST' },
    });
    expect((await server.closed).graceful).toBe(false);
  });

  test('loses the connection while a one-sided write is answered, whose outcome is then unknown', async () => {
    const { client, server } = await connect({
      server: { frame: ({ kind }) => (kind === 'answer' ? 'lose' : 'deliver') },
    });
    const memory = await server.expose(8, { read: true, write: true });
    const remote = client.attach(memory.descriptor);
    const read = codeOf(remote.read(0, 8));
    await expect(remote.write(0, numbers(1))).rejects.toMatchObject({
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      outcome: 'unknown',
    });
    expect(await read).toBe('ERR_VERBMQ_CONNECTION_LOST');
  });

  test('delays delivery until it is released, in order', async () => {
    const gate = makeGate();
    const { client, server } = await connect({
      client: { frame: ({ kind, index }) => (kind === 'message' && index === 1 ? gate.opened : 'deliver') },
    });
    for (let n = 0; n < 4; n++) await client.send(numbers(n));
    const drained = client.drain();
    const received: number[] = [];
    const first = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        received.push(message.data[0]!);
        resolve();
      });
    });
    await first;
    await server.send(numbers(9)); // the other direction is not delayed
    for await (const message of client) {
      expect(message.data[0]).toBe(9);
      break;
    }
    expect(received).toEqual([0]);
    gate.open();
    await drained;
    expect(received).toEqual([0, 1, 2, 3]);
  });

  test('that drops everything makes the peer silent, which heartbeats find', async () => {
    const { client, server } = await connect({
      server: { frame: () => 'drop' },
      options: { heartbeatIntervalMs: 5, peerTimeoutMs: 20 },
    });
    const waiting = codeOf(client.messages().next());
    expect((await client.closed).error?.code).toBe('ERR_VERBMQ_PEER_TIMEOUT');
    expect(await waiting).toBe('ERR_VERBMQ_PEER_TIMEOUT');
    expect((await server.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
  });

  test('that drops the close lets it run into its deadline', async () => {
    const { client } = await connect({
      client: { frame: ({ kind }) => (kind === 'close' ? 'drop' : 'deliver') },
      options: { closeTimeoutMs: 10 },
    });
    expect(await client.close()).toMatchObject({
      graceful: false,
      error: { code: 'ERR_VERBMQ_CLOSE_TIMEOUT' },
    });
  });
});

test('a fault of allocate fails the next lease, or exposed memory, and only that', async () => {
  let failures = 1;
  const { client } = await connect({ client: { allocate: () => failures-- <= 0 } });
  expect(() => client.allocate(10)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS' }));
  expect(client.allocate(10).byteLength).toBe(10);
  failures = 1;
  expect(await codeOf(client.expose(10, { read: true }))).toBe('ERR_VERBMQ_NO_BUFFERS');
  expect((await client.expose(10, { read: true })).byteLength).toBe(10);
});

test('windows are what the options say, in bytes and messages', async () => {
  const network = new MemoryNetwork();
  const server = new MemoryTransport({ network, windowMessages: 3, windowBytes: 100 });
  const client = new MemoryTransport({ network });
  const listener = await server.listen('memory://small');
  const connection = await client.connect(listener.url);
  let sent = 0;
  while (connection.trySend(new Uint8Array(1))) sent++;
  expect(sent).toBe(3);
  const second = await client.connect(listener.url);
  sent = 0;
  while (second.trySend(new Uint8Array(50))) sent++;
  expect(sent).toBe(2);
  for (const each of [connection, second]) each.abort();
  await Promise.all([client.close(), server.close()]);
});

test('a transport that nobody else has closes when its listener and its last connection have ended, and not before', async () => {
  const network = new MemoryNetwork();
  const transport = new MemoryTransport({ network });
  const client = new MemoryTransport({ network });
  const listener = await transport.listen('memory://own');
  const accepted = new Promise<Connection>((resolve) => listener.onConnection(resolve));
  transport.closeWhenUnused();
  await client.connect('memory://own');
  await listener.close();
  expect(await codeOf(transport.connect('memory://nobody'))).toBe('ERR_VERBMQ_CONNECT_FAILED');
  await client.close();
  await (await accepted).closed;
  expect(await codeOf(transport.connect('memory://nobody'))).toBe('ERR_VERBMQ_CLOSED');
});

test('networks are apart', async () => {
  const one = new MemoryTransport({ network: new MemoryNetwork() });
  const other = new MemoryTransport({ network: new MemoryNetwork() });
  await one.listen('memory://name');
  expect(await codeOf(other.connect('memory://name'))).toBe('ERR_VERBMQ_CONNECT_FAILED');
  await Promise.all([one.close(), other.close()]);
});

test('nothing is delivered within the call that sends', async () => {
  const { client, server } = await connect({});
  let delivered = false;
  const arrived = new Promise<void>((resolve) => {
    server.onMessage(() => {
      delivered = true;
      resolve();
    });
  });
  client.trySend(numbers(1));
  expect(delivered).toBe(false);
  await Promise.resolve();
  expect(delivered).toBe(false);
  await arrived;
});

test('a peer that was not greeted cannot write more to exposed memory than it may say', async () => {
  const { client, server } = await connect({ options: { maxGreetingBytes: 1000 } });
  const owned = await server.expose(2000, { write: true });
  const remote = client.attach(owned.descriptor);
  await remote.write(0, new Uint8Array(1000));
  expect(await codeOf(remote.write(0, new Uint8Array(1001)))).toBe('ERR_VERBMQ_PEER_ABORTED');
  expect((await server.closed).error?.code).toBe('ERR_VERBMQ_PROTOCOL');
});

test.each([{ windowMessages: 1 }, { windowBytes: 100 }])(
  'a message that is kept does not keep out the next one, whatever the window: %o',
  async (window) => {
    const network = new MemoryNetwork();
    const transport = new MemoryTransport({ ...window, network });
    onTestFinished(() => transport.close());
    const listener = await transport.listen('memory://service');
    const accepted = new Promise<Connection>((resolve) => listener.onConnection(resolve));
    const client = await transport.connect('memory://service');
    const server = await accepted;
    const kept: Message[] = [];
    server.onMessage((message) => void kept.push(message.retain()));
    await client.send(new Uint8Array(40));
    await client.send(new Uint8Array(200));
    await client.send(numbers(3));
    await client.drain();
    expect(kept.map(({ byteLength }) => byteLength)).toEqual([40, 200, 1]);
    for (const message of kept) message.release();
  },
);
