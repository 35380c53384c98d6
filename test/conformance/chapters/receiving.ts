import { expect, test } from 'vitest';
import { failure, turns } from '../../support/expectations.js';
import { fill, numbered, numberOf, take, takeAll } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { uncaughtException } from '../../support/uncaught.js';
import { until } from '../../support/until.js';

const ATTACHED = expect.objectContaining({ code: 'ERR_VERBMQ_RECEIVER_ATTACHED' });

export function receiving(setUp: SetUp): void {
  test('a handler gets the messages that waited before those that come', async () => {
    const { client, server } = await connectPair(setUp);
    const first = await fill(client, (n) => numbered(n, Math.min(client.maxMessageBytes, 1000)));
    const total = first + 20;
    const received = new Promise<number[]>((resolve) => {
      const numbers: number[] = [];
      server.onMessage((message) => {
        numbers.push(numberOf(message.data));
        if (numbers.length === total) resolve(numbers);
      });
    });
    for (let n = first; n < total; n++) await client.send(numbered(n));
    expect(await received).toEqual(Array.from({ length: total }, (_, n) => n));
  });

  test('a handler is never called within the call that attaches it', async () => {
    const { client, server } = await connectPair(setUp);
    await client.send(numbered(1));
    await until(() => server.stats().messagesQueued > 0);
    let called = false;
    const handled = new Promise<void>((resolve) => {
      server.onMessage(() => {
        called = true;
        resolve();
      });
    });
    expect(called).toBe(false);
    await handled;
  });

  test('a detached handler gets nothing more, and what comes waits for the next one', async () => {
    const { client, server } = await connectPair(setUp);
    const first: number[] = [];
    await new Promise<void>((resolve) => {
      const detach = server.onMessage((message) => {
        first.push(numberOf(message.data));
        if (first.length === 2) {
          detach();
          resolve();
        }
      });
      void Promise.all([1, 2, 3, 4].map((n) => client.send(numbered(n))));
    });
    expect((await take(server, 2)).map(numberOf)).toEqual([3, 4]);
    expect(first).toEqual([1, 2]);
  });

  test('detaching twice does not detach the next handler', async () => {
    const { client, server } = await connectPair(setUp);
    const detach = server.onMessage(() => {});
    detach();
    const received = new Promise<number>((resolve) => {
      server.onMessage((message) => resolve(numberOf(message.data)));
    });
    detach();
    await client.send(numbered(8));
    expect(await received).toBe(8);
  });

  test('a connection has one receiver at a time', async () => {
    const { server } = await connectPair(setUp);
    const detach = server.onMessage(() => {});
    expect(() => server.onMessage(() => {})).toThrow(ATTACHED);
    expect(() => server.messages()).toThrow(ATTACHED);
    detach();
    const iterator = server.messages();
    expect(() => server.onMessage(() => {})).toThrow(ATTACHED);
    expect(() => server[Symbol.asyncIterator]()).toThrow(ATTACHED);
    await iterator.return?.();
    server.onMessage(() => {});
  });

  test('leaving a loop leaves the rest for the next receiver', async () => {
    const { client, server } = await connectPair(setUp);
    for (let n = 0; n < 6; n++) await client.send(numbered(n));
    expect((await take(server, 2)).map(numberOf)).toEqual([0, 1]);
    await expect(
      (async () => {
        for await (const _ of server) throw new Error('the loop body failed');
      })(),
    ).rejects.toThrow('the loop body failed');
    expect((await take(server, 3)).map(numberOf)).toEqual([3, 4, 5]);
  });

  test('an iteration that waits ends when it is left', async () => {
    const { server } = await connectPair(setUp);
    const iterator = server.messages();
    const waiting = iterator.next();
    await iterator.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  test('an iteration ends when the connection ends in order, after all messages', async () => {
    const { client, server } = await connectPair(setUp);
    const all = takeAll(server);
    for (let n = 0; n < 10; n++) await client.send(numbered(n));
    await client.close();
    expect((await all).map(numberOf)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(await takeAll(server)).toEqual([]);
  });

  test('an iteration throws when the connection was aborted by the peer, after the messages that had arrived', async () => {
    const { client, server } = await connectPair(setUp);
    await client.send(numbered(1));
    await until(() => server.stats().messagesQueued > 0);
    client.abort('enough');
    await server.closed;
    const iterator = server.messages();
    const first = await iterator.next();
    expect(numberOf(first.value!.data)).toBe(1);
    await failure(iterator.next(), 'ERR_VERBMQ_PEER_ABORTED');
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  test('a loop that works on a message holds back the peer', async () => {
    const { client, server } = await connectPair(setUp);
    const iterator = server.messages();
    const length = Math.min(client.maxMessageBytes, 10_000);
    const sent = await fill(client, (n) => numbered(n, length));
    expect(client.trySend(numbered(sent, length))).toBe(false);
    expect(sent * length).toBeLessThanOrEqual(setUp.unreadBytes + length);
    const waiting = client.send(numbered(sent, length));
    for (let n = 0; n <= sent; n++) expect(numberOf((await iterator.next()).value!.data)).toBe(n);
    await waiting;
    await iterator.return?.();
  });

  test('pause holds back a handler, resume lets it go on, and nothing is lost', async () => {
    const { client, server } = await connectPair(setUp);
    const numbers: number[] = [];
    let resumed = false;
    const done = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        const n = numberOf(message.data);
        numbers.push(n);
        if (n === 1) server.pause();
        if (n > 1) expect(resumed).toBe(true);
        if (n === 4) resolve();
      });
    });
    for (let n = 0; n < 5; n++) await client.send(numbered(n));
    await until(() => server.stats().messagesQueued >= 3);
    expect(numbers).toEqual([0, 1]);
    resumed = true;
    server.resume();
    await done;
    expect(numbers).toEqual([0, 1, 2, 3, 4]);
  });

  test('a handler that throws is an uncaught exception, and the messages after it still come', async () => {
    const { client, server } = await connectPair(setUp);
    const uncaught = uncaughtException();
    const after = new Promise<number>((resolve) => {
      server.onMessage((message) => {
        const n = numberOf(message.data);
        if (n === 0) throw new Error('the handler is broken');
        resolve(n);
      });
    });
    await Promise.all([client.send(numbered(0)), client.send(numbered(1))]);
    await expect(uncaught).resolves.toMatchObject({ message: 'the handler is broken' });
    expect(await after).toBe(1);
    expect(server.state).toBe('open');
  });

  test('a handler may close the connection, and gets what the peer had sent before', async () => {
    const { client, server } = await connectPair(setUp);
    const numbers: number[] = [];
    server.onMessage((message) => {
      numbers.push(numberOf(message.data));
      if (numbers.length === 1) void server.close();
    });
    await Promise.all([0, 1, 2, 3, 4].map((n) => client.send(numbered(n))));
    expect(await server.closed).toEqual({ graceful: true, initiator: 'local' });
    expect(numbers).toEqual([0, 1, 2, 3, 4]);
  });

  test('a handler may abort the connection, and is not called again', async () => {
    const { client, server } = await connectPair(setUp);
    let calls = 0;
    server.onMessage(() => {
      calls++;
      server.abort('in the handler');
    });
    const sends = [0, 1, 2, 3].map((n) => client.send(numbered(n)).catch(() => {}));
    expect(await server.closed).toMatchObject({ graceful: false, initiator: 'local' });
    await client.closed;
    await Promise.all(sends);
    await turns();
    expect(calls).toBe(1);
  });
}
