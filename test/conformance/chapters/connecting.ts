import { expect, test } from 'vitest';
import { failure, settled } from '../../support/expectations.js';
import { numbered, numberOf, take } from '../../support/messages.js';
import {
  abortAfterTest,
  connectPair,
  listenForTest,
  nextConnection,
  transportForTest,
} from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';

export function connecting(setUp: SetUp): void {
  test('a listener is reached by its URL, as a string or as an object, and by its address', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    listener.onConnection(() => {});
    for (const address of [listener.url, new URL(listener.url), listener.address]) {
      const connection = abortAfterTest(await transport.connect(address));
      expect(connection.state).toBe('open');
    }
  });

  test('connect fails with its own code where nobody listens', async () => {
    const transport = transportForTest(setUp);
    const error = await failure(transport.connect(setUp.deadAddress()), 'ERR_VERBMQ_CONNECT_FAILED');
    expect(error.retryable).toBe(true);
    expect(transport.stats().connections).toBe(0);
  });

  test('a transport that failed to connect can connect afterwards', async () => {
    const transport = transportForTest(setUp);
    await failure(transport.connect(setUp.deadAddress()), 'ERR_VERBMQ_CONNECT_FAILED');
    const listener = await listenForTest(setUp);
    listener.onConnection(() => {});
    expect(abortAfterTest(await transport.connect(listener.url)).state).toBe('open');
  });

  test('an address of another transport is refused', async () => {
    const transport = transportForTest(setUp);
    const foreign = setUp.foreignAddress ?? 'verbmq://127.0.0.1:0';
    await failure(transport.connect(foreign), 'ERR_VERBMQ_INVALID_ADDRESS');
    await failure(transport.listen(foreign), 'ERR_VERBMQ_INVALID_ADDRESS');
  });

  test('a signal that was aborted before ends connect at once, with its reason as cause', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const reason = new Error('not needed any more');
    const signal = AbortSignal.abort(reason);
    const error = await failure(transport.connect(listener.url, { signal }), 'ERR_VERBMQ_CANCELLED');
    expect(error.cause).toBe(reason);
  });

  test('a signal that aborts meanwhile ends connect', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const controller = new AbortController();
    const connecting = transport.connect(listener.url, { signal: controller.signal });
    controller.abort('changed my mind');
    const error = await failure(connecting, 'ERR_VERBMQ_CANCELLED');
    expect(error.cause).toBe('changed my mind');
    expect(transport.stats().connections).toBe(0);
  });

  test('a signal that aborts after connect does nothing to the connection', async () => {
    const controller = new AbortController();
    const { client, server } = await connectPair(setUp, { connect: { signal: controller.signal } });
    controller.abort();
    await client.send(numbered(7));
    expect(numberOf((await take(server, 1))[0]!)).toBe(7);
  });

  test('closing the transport ends attempts to connect', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const connecting = transport.connect(listener.url);
    const closing = transport.close();
    await failure(connecting, 'ERR_VERBMQ_CLOSED');
    await closing;
  });

  test('two parallel connects give two connections', async () => {
    const { clientTransport, listener } = await connectPair(setUp);
    listener.onConnection(() => {});
    const [one, other] = await Promise.all([
      clientTransport.connect(listener.url),
      clientTransport.connect(listener.url),
    ]);
    abortAfterTest(one);
    abortAfterTest(other);
    expect(one.id).not.toBe(other.id);
    await one.close();
    expect(other.state).toBe('open');
  });

  test('many connections are opened at once, and each has its own peer', async () => {
    const count = scaled(50, 8);
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    listener.onConnection((connection) => {
      connection.onMessage((message) => void connection.send(message.data));
    });
    const connections = await Promise.all(
      Array.from({ length: count }, () => transport.connect(listener.url)),
    );
    for (const connection of connections) abortAfterTest(connection);
    await Promise.all(connections.map((connection, n) => connection.send(numbered(n))));
    const echoes = await Promise.all(connections.map((connection) => take(connection, 1)));
    expect(echoes.map(([echo]) => numberOf(echo!))).toEqual(connections.map((_, n) => n));
    expect(listener.stats()).toEqual({ accepted: count, failed: 0 });
  });

  test('an attempt that is cancelled leaves the others alone', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    listener.onConnection(() => {});
    const controller = new AbortController();
    const cancelled = settled(transport.connect(listener.url, { signal: controller.signal }));
    const kept = transport.connect(listener.url);
    controller.abort();
    expect(await cancelled).toBe('ERR_VERBMQ_CANCELLED');
    expect(abortAfterTest(await kept).state).toBe('open');
  });

  test('messages that arrive before anybody receives them wait', async () => {
    const listener = await listenForTest(setUp);
    const transport = transportForTest(setUp);
    const accepted = nextConnection(listener);
    const client = abortAfterTest(await transport.connect(listener.url));
    await client.send(numbered(1));
    await client.drain();
    const server = abortAfterTest(await accepted);
    await client.send(numbered(2));
    expect((await take(server, 2)).map(numberOf)).toEqual([1, 2]);
  });
}
