import diagnostics from 'node:diagnostics_channel';
import type { Connection, Logger } from '@verbmq/core';
import { expect, onTestFinished, test } from 'vitest';
import { failure, turns } from '../../support/expectations.js';
import { numbered, take } from '../../support/messages.js';
import { connectPair, listenForTest, nextConnection, transportForTest } from '../../support/pair.js';
import { recordedLog } from '../../support/recorded-log.js';
import type { SetUp } from '../../support/set-up.js';
import { uncaughtExceptions } from '../../support/uncaught.js';

/** What is published on a channel during a test. */
function record<T>(channel: string): T[] {
  const messages: T[] = [];
  const listener = (message: unknown): void => {
    messages.push(message as T);
  };
  diagnostics.subscribe(channel, listener);
  onTestFinished(() => {
    diagnostics.unsubscribe(channel, listener);
  });
  return messages;
}

function fullDisk(): never {
  throw new Error('the disk is full');
}

function throwingLogger(childless: boolean): Logger {
  const logger: Logger = {
    debug: fullDisk,
    info: fullDisk,
    warn: fullDisk,
    error: fullDisk,
    child: childless ? fullDisk : () => logger,
  };
  return logger;
}

export function observing(setUp: SetUp): void {
  test('stats count messages and bytes of both directions', async () => {
    const { client, server, clientTransport } = await connectPair(setUp);
    // A transport may count more, of its own kind.
    expect(client.stats()).toMatchObject({
      messagesSent: 0,
      bytesSent: 0,
      messagesReceived: 0,
      bytesReceived: 0,
      sendsWaiting: 0,
      bytesWaiting: 0,
      bytesBuffered: 0,
      messagesQueued: 0,
      backpressureEvents: 0,
    });
    await client.send(numbered(1, 100));
    const lease = client.allocate(50);
    lease.data.set(numbered(2));
    await client.send(lease);
    expect(client.trySend(numbered(3, 25))).toBe(true);
    await server.send(numbered(4, 10));
    await take(server, 3);
    await take(client, 1);
    expect(client.stats()).toMatchObject({
      messagesSent: 3,
      bytesSent: 175,
      messagesReceived: 1,
      bytesReceived: 10,
    });
    expect(server.stats()).toMatchObject({
      messagesSent: 1,
      bytesSent: 10,
      messagesReceived: 3,
      bytesReceived: 175,
    });
    await client.close();
    expect(clientTransport.stats()).toMatchObject({
      listeners: 0,
      connections: 0,
      messagesSent: 3,
      bytesSent: 175,
      messagesReceived: 1,
      bytesReceived: 10,
    });
  });

  test('a snapshot of the stats does not change', async () => {
    const { client } = await connectPair(setUp);
    const before = client.stats();
    await client.send(numbered(1));
    expect(before.messagesSent).toBe(0);
    expect(client.stats().messagesSent).toBe(1);
  });

  test('connections and listeners are told on diagnostics channels when they open and end', async () => {
    const opened = record<{ connection: Connection; direction: string }>('verbmq:connection:open');
    const closed = record<{ connection: Connection; info: object }>('verbmq:connection:close');
    const listening = record<{ listener: unknown }>('verbmq:listener:open');
    const unlistening = record<{ listener: unknown }>('verbmq:listener:close');
    const { client, server, listener } = await connectPair(setUp);
    expect(listening).toEqual([{ listener }]);
    expect(new Set(opened.map(({ connection }) => connection))).toEqual(new Set([client, server]));
    expect(opened.map(({ connection, direction }) => connection.direction === direction)).toEqual([
      true,
      true,
    ]);
    const info = await client.close();
    await server.closed;
    expect(closed.find(({ connection }) => connection === client)?.info).toBe(info);
    expect(closed.length).toBe(2);
    await listener.close();
    expect(unlistening).toEqual([{ listener }]);
  });

  test('a connect that fails is told on a diagnostics channel', async () => {
    const failed = record<{ transport: unknown; error: unknown }>('verbmq:connect:fail');
    const transport = transportForTest(setUp);
    const error = await failure(transport.connect(setUp.deadAddress()), 'ERR_VERBMQ_CONNECT_FAILED');
    expect(failed).toEqual([expect.objectContaining({ transport, error })]);
  });

  test('the logger that was passed in is told of ends', async () => {
    const { lines, logger } = recordedLog();
    const { client, server } = await connectPair(setUp, { client: { logger } });
    server.abort('to be logged');
    await client.closed;
    const told = { level: 'warn', message: 'connection ended' };
    expect(lines).toContainEqual(expect.objectContaining(told));
  });

  test.each([
    ['logs', false],
    ['makes a child', true],
  ])('a logger that throws when it %s is an uncaught exception, and stops nothing', async (_, childless) => {
    const uncaught = uncaughtExceptions();
    onTestFinished(() => uncaught.stop());
    const both = { logger: throwingLogger(childless) };
    const { client, server, listener, clientTransport, serverTransport } = await connectPair(setUp, { both });
    await client.send(numbered(1));
    await take(server, 1);
    expect(await client.close()).toMatchObject({ graceful: true });
    expect(await server.closed).toMatchObject({ graceful: true });
    const accepted = nextConnection(listener);
    const other = await clientTransport.connect(listener.url);
    (await accepted).abort('enough');
    expect(await other.closed).toMatchObject({ error: { code: 'ERR_VERBMQ_PEER_ABORTED' } });
    await Promise.all([clientTransport.close(), serverTransport.close()]);
    await turns();
    expect(uncaught.errors.length).toBeGreaterThan(0);
    for (const error of uncaught.errors) expect(error).toMatchObject({ message: 'the disk is full' });
  });

  test('a subscriber that throws is an uncaught exception, and stops nothing', async () => {
    const uncaught = uncaughtExceptions();
    const names = ['connection:open', 'connection:close', 'listener:close'].map((name) => `verbmq:${name}`);
    for (const name of names) diagnostics.subscribe(name, fullDisk);
    onTestFinished(() => {
      for (const name of names) diagnostics.unsubscribe(name, fullDisk);
      uncaught.stop();
    });
    const { client, server, clientTransport, serverTransport } = await connectPair(setUp);
    expect(await client.close()).toMatchObject({ graceful: true });
    expect(await server.closed).toMatchObject({ graceful: true });
    await Promise.all([clientTransport.close(), serverTransport.close()]);
    await turns();
    for (const error of uncaught.errors) expect(error).toMatchObject({ message: 'the disk is full' });
    expect(uncaught.errors.length).toBeGreaterThanOrEqual(4);
  });

  test('a listener counts what it accepted', async () => {
    const listener = await listenForTest(setUp);
    expect(listener.stats()).toEqual({ accepted: 0, failed: 0 });
    const transport = transportForTest(setUp);
    const arrived = new Promise<void>((resolve) => {
      let count = 0;
      listener.onConnection(() => {
        if (++count === 2) resolve();
      });
    });
    await Promise.all([transport.connect(listener.url), transport.connect(listener.url)]);
    await arrived;
    expect(listener.stats()).toEqual({ accepted: 2, failed: 0 });
  });
}
