import { expect, onTestFinished, test } from 'vitest';
import type { Connection, Listener } from '../src/index.js';
import { MemoryNetwork, MemoryTransport } from '../src/memory-transport/index.js';

const PLACES = 1024;

async function listen() {
  const network = new MemoryNetwork();
  const server = new MemoryTransport({ network });
  const client = new MemoryTransport({ network });
  onTestFinished(async () => {
    await Promise.all([client.close(), server.close()]);
  });
  const listener = await server.listen('memory://service');
  const connect = (): Promise<Connection> => client.connect(listener.url);
  return { listener, connect };
}

/** Comes, says something, and leaves; all of it has arrived. */
async function passBy(connect: () => Promise<Connection>, word: number): Promise<void> {
  const connection = await connect();
  await connection.send(Uint8Array.of(word % 256));
  expect((await connection.close()).graceful).toBe(true);
}

/** Takes all that wait. */
function takeAll(listener: Listener): Connection[] {
  const taken: Connection[] = [];
  listener.onConnection((connection) => taken.push(connection))();
  return taken;
}

test('connections that end while nobody takes them leave the line', async () => {
  const { listener, connect } = await listen();
  for (let n = 0; n < PLACES + 10; n++) {
    const connection = await connect();
    if (n % 2 === 0) connection.abort('leaving');
    await connection.close();
  }
  const client = await connect();
  expect(client.state).toBe('open');
  const taken = takeAll(listener);
  expect(taken.map(({ state }) => state)).toEqual(['open']);
  expect(listener.stats()).toEqual({ accepted: PLACES + 11, failed: PLACES + 10 });
  taken[0]?.abort();
  expect((await client.closed).graceful).toBe(false);
});

test('what a connection brought before it ended is read, and stands in its place of the line', async () => {
  const { listener, connect } = await listen();
  await connect();
  await passBy(connect, 7);
  await connect();
  const taken = takeAll(listener);
  expect(taken.map(({ state }) => state)).toEqual(['open', 'closed', 'open']);
  const words: number[] = [];
  for await (const message of taken[1] as Connection) words.push(...message.data);
  expect(words).toEqual([7]);
});

test('a full line refuses, and goes on when one of those that wait has left', async () => {
  const { listener, connect } = await listen();
  const clients: Connection[] = [];
  for (let n = 0; n < PLACES; n++) clients.push(await connect());
  const refused = await connect();
  expect((await refused.closed).error).toMatchObject({
    code: 'ERR_VERBMQ_PEER_ABORTED',
    message: expect.stringContaining('too many connections wait to be accepted'),
  });
  await clients[500]?.close();
  const last = await connect();
  expect(takeAll(listener)).toHaveLength(PLACES);
  expect(last.state).toBe('open');
  expect(listener.stats()).toEqual({ accepted: PLACES + 1, failed: 2 });
});

test('those that have ended and brought messages make way in a full line, who ended first before the others', async () => {
  const { listener, connect } = await listen();
  const staying = await connect();
  for (let n = 1; n < PLACES; n++) await passBy(connect, n);
  const newcomers = [await connect(), await connect()];
  const taken = takeAll(listener);
  expect(taken).toHaveLength(PLACES);
  expect([staying, ...newcomers].map(({ state }) => state)).toEqual(['open', 'open', 'open']);
  const { value } = await (taken[1] as Connection).messages().next();
  expect(value?.data[0]).toBe(3);
  expect(listener.stats()).toEqual({ accepted: PLACES + 2, failed: 2 });
});

test('who has been taken out of the line keeps its messages, however full the line gets', async () => {
  const { listener, connect } = await listen();
  await passBy(connect, 9);
  const [taken] = takeAll(listener);
  for (let n = 0; n < PLACES + 5; n++) await passBy(connect, n);
  const { value } = await (taken as Connection).messages().next();
  expect(value?.data[0]).toBe(9);
});

test('a handler that closes the listener gets nobody any more; those that wait are aborted', async () => {
  const { listener, connect } = await listen();
  const clients = [await connect(), await connect()];
  let taken = 0;
  listener.onConnection(() => {
    taken++;
    void listener.close();
  });
  expect(taken).toBe(1);
  expect((await clients[1]?.closed)?.error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
  expect(clients[0]?.state).toBe('open');
});
