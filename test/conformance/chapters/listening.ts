import { expect, test } from 'vitest';
import { failure } from '../../support/expectations.js';
import { numbered, numberOf, take, takeAll } from '../../support/messages.js';
import {
  abortAfterTest,
  connectPair,
  listenForTest,
  nextConnection,
  transportForTest,
} from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { until } from '../../support/until.js';

export function listening(setUp: SetUp): void {
  test('a listener says where it listens, with the port that it was given', async () => {
    const listener = await listenForTest(setUp);
    if ('port' in listener.address) expect(listener.address.port).toBeGreaterThan(0);
    expect(listener.url).toMatch(/^[a-z]+:\/\/./);
  });

  test('an address in use is refused with its own code, and freed by close', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    await failure(transport.listen(listener.address), 'ERR_VERBMQ_ADDRESS_IN_USE');
    await listener.close();
    const second = await transport.listen(listener.address);
    expect(second.address).toEqual(listener.address);
  });

  test('connections that nobody takes wait, and go to the handler in order', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    for (let n = 0; n < 3; n++) {
      const client = abortAfterTest(await transport.connect(listener.url));
      await client.send(numbered(n));
    }
    const servers = await new Promise<import('@verbmq/core').Connection[]>((resolve) => {
      const taken: import('@verbmq/core').Connection[] = [];
      listener.onConnection((connection) => {
        taken.push(connection);
        if (taken.length === 3) resolve(taken);
      });
    });
    const numbers: number[] = [];
    for (const server of servers) numbers.push(numberOf((await take(server, 1))[0]!));
    expect(numbers).toEqual([0, 1, 2]);
  });

  test('a connection that ends while it waits is not handed over', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const gone = abortAfterTest(await transport.connect(listener.url));
    gone.abort('leaving');
    await until(() => listener.stats().failed === 1);
    const client = abortAfterTest(await transport.connect(listener.url));
    const server = await nextConnection(listener);
    await client.send(numbered(2));
    expect(numberOf((await take(server, 1))[0]!)).toBe(2);
  });

  test('a connection that has brought messages and ends while it waits is handed over with them', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const gone = abortAfterTest(await transport.connect(listener.url));
    await gone.send(numbered(1));
    expect((await gone.close()).graceful).toBe(true);
    const server = await nextConnection(listener);
    expect((await server.closed).graceful).toBe(true);
    expect((await takeAll(server)).map(numberOf)).toEqual([1]);
  });

  test('connections are taken by iteration, which ends when the listener closes', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    abortAfterTest(await transport.connect(listener.url));
    let taken = 0;
    for await (const connection of listener) {
      expect(connection.direction).toBe('in');
      taken++;
      if (taken === 1) abortAfterTest(await transport.connect(listener.url));
      else void listener.close();
    }
    expect(taken).toBe(2);
  });

  test('a listener has one receiver at a time', async () => {
    const listener = await listenForTest(setUp);
    const detach = listener.onConnection(() => {});
    expect(() => listener.onConnection(() => {})).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_RECEIVER_ATTACHED' }),
    );
    expect(() => listener[Symbol.asyncIterator]()).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_RECEIVER_ATTACHED' }),
    );
    detach();
    const iterator = listener[Symbol.asyncIterator]();
    expect(() => listener.onConnection(() => {})).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_RECEIVER_ATTACHED' }),
    );
    await iterator.return?.();
    listener.onConnection(() => {});
  });

  test('accepted connections outlive their listener', async () => {
    const { client, server, listener } = await connectPair(setUp);
    await listener.close();
    await client.send(numbered(5));
    expect(numberOf((await take(server, 1))[0]!)).toBe(5);
  });

  test('connections that nobody has taken end with their listener', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const client = abortAfterTest(await transport.connect(listener.url));
    await client.send(numbered(1)); // the listener has the connection when this has been taken in, or gets it now
    await listener.close();
    const { error } = await client.closed;
    expect(['ERR_VERBMQ_PEER_ABORTED', 'ERR_VERBMQ_CONNECTION_LOST']).toContain(error?.code);
  });

  test('nobody is reached where a listener was closed', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    await listener.close();
    await failure(transport.connect(listener.address), 'ERR_VERBMQ_CONNECT_FAILED');
  });

  test('close ends once and answers every caller', async () => {
    const listener = await listenForTest(setUp);
    await Promise.all([listener.close(), listener.close(), listener.closed]);
    await listener.close();
    await listener[Symbol.asyncDispose]();
  });

  test('two listeners of one transport have their own connections', async () => {
    const transport = transportForTest(setUp);
    const one = await transport.listen(setUp.listenAddress());
    const other = await transport.listen(setUp.listenAddress());
    const atOne = nextConnection(one);
    const atOther = nextConnection(other);
    const client = transportForTest(setUp);
    const toOther = abortAfterTest(await client.connect(other.url));
    const toOne = abortAfterTest(await client.connect(one.url));
    await toOne.send(numbered(1));
    await toOther.send(numbered(2));
    expect(numberOf((await take(await atOne, 1))[0]!)).toBe(1);
    expect(numberOf((await take(await atOther, 1))[0]!)).toBe(2);
    expect(transport.stats()).toMatchObject({ listeners: 2, connections: 2 });
  });

  test('a handler that throws is an uncaught exception, and the connection is handed over nevertheless', async () => {
    const { client, listener, clientTransport } = await connectPair(setUp);
    const { uncaughtException } = await import('../../support/uncaught.js');
    const uncaught = uncaughtException();
    listener.onConnection((connection) => {
      connection.onMessage((message) => void connection.send(message.data));
      throw new Error('the handler is broken');
    });
    const second = abortAfterTest(await clientTransport.connect(listener.url));
    await expect(uncaught).resolves.toMatchObject({ message: 'the handler is broken' });
    await second.send(numbered(9));
    expect(numberOf((await take(second, 1))[0]!)).toBe(9);
    expect(client.state).toBe('open');
  });
}
