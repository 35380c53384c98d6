import type { Connection, Message } from '@verbmq/core';
import { expect, test } from 'vitest';
import { expectBytes, fill, numbered, numberOf, pattern, sameBytes, take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';
import { until } from '../../support/until.js';

const RELEASED = expect.objectContaining({ code: 'ERR_VERBMQ_LEASE_RELEASED' });

/** The next message as the handler gets it, after `inHandler` and after the handler has returned. */
function nextMessage(connection: Connection, inHandler: (message: Message) => void): Promise<Message> {
  return new Promise((resolve) => {
    const detach = connection.onMessage((message) => {
      inHandler(message);
      detach();
      queueMicrotask(() => resolve(message));
    });
  });
}

export function incomingLeases(setUp: SetUp): void {
  test('a message is over when its handler has returned', async () => {
    const { client, server } = await connectPair(setUp);
    const handled = nextMessage(server, (message) => expect(numberOf(message.data)).toBe(1));
    await client.send(numbered(1));
    const message = await handled;
    expect(() => message.data).toThrow(RELEASED);
    expect(() => message.byteLength).toThrow(RELEASED);
    expect(() => message.retain()).toThrow(RELEASED);
    message.release(); // does nothing
  });

  test('a retained message stays until it is released', async () => {
    const { client, server } = await connectPair(setUp);
    const handled = nextMessage(server, (message) => {
      expect(message.retained).toBe(false);
      expect(message.retain()).toBe(message);
      message.retain();
      expect(message.retained).toBe(true);
    });
    await client.send(pattern(500, 1));
    const message = await handled;
    for (let n = 0; n < 100; n++) await client.send(pattern(500, 2));
    await take(server, 100);
    expectBytes(message.data, pattern(500, 1));
    message.release();
    expect(() => message.data).toThrow(RELEASED);
    message.release();
  });

  test('a message of an iteration is over when the next is asked for, or the loop is left', async () => {
    const { client, server } = await connectPair(setUp);
    for (let n = 0; n < 3; n++) await client.send(numbered(n));
    const iterator = server.messages();
    const first = (await iterator.next()).value!;
    expect(numberOf(first.data)).toBe(0);
    const second = (await iterator.next()).value!;
    expect(() => first.data).toThrow(RELEASED);
    second.retain();
    const third = (await iterator.next()).value!;
    expect(numberOf(second.data)).toBe(1);
    await iterator.return?.();
    expect(() => third.data).toThrow(RELEASED);
    expect(numberOf(second.data)).toBe(1);
    second.release();
  });

  test('releasing early is allowed', async () => {
    const { client, server } = await connectPair(setUp);
    const handled = nextMessage(server, (message) => {
      message.release();
      expect(() => message.data).toThrow(RELEASED);
    });
    await client.send(numbered(1));
    await handled;
    await client.send(numbered(2));
    expect(numberOf((await take(server, 1))[0]!)).toBe(2);
  });

  test('any number of retained messages never stalls the connection', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 20_000);
    const count = Math.max(scaled(1000, 200), Math.ceil((2 * setUp.unreadBytes) / length));
    const kept: Message[] = [];
    const all = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        kept.push(message.retain());
        if (kept.length === count) resolve();
      });
    });
    for (let n = 0; n < count; n++) await client.send(pattern(length, n));
    await all;
    expect(kept.every((message, n) => sameBytes(message.data, pattern(length, n)))).toBe(true);
    for (const message of kept.reverse()) message.release();
    expect(server.state).toBe('open');
  });

  test('small retained messages beyond all slots never stall the connection', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(5000, 2000);
    const kept: Message[] = [];
    const all = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        kept.push(message.retain());
        if (kept.length === count) resolve();
      });
    });
    for (let n = 0; n < count; n++) await client.send(numbered(n));
    await all;
    expect(kept.map((message) => numberOf(message.data))).toEqual(Array.from({ length: count }, (_, n) => n));
    for (const message of kept) message.release();
  });

  test('messages released in any order give their room back', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(2000, 500);
    const held: Message[] = [];
    let received = 0;
    const all = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        held.push(message.retain());
        if (held.length >= 10) held.splice((received * 7) % held.length, 1)[0]?.release();
        if (++received === count) resolve();
      });
    });
    for (let n = 0; n < count; n++) await client.send(numbered(n, 200));
    await all;
    for (const message of held) message.release();
    expect(received).toBe(count);
  });

  test('a retained message outlives its connection', async () => {
    const { client, server } = await connectPair(setUp);
    const handled = nextMessage(server, (message) => message.retain());
    const length = Math.min(client.maxMessageBytes, 5000);
    await client.send(pattern(length, 3));
    const message = await handled;
    client.abort('the message stays');
    await Promise.all([client.closed, server.closed]);
    expectBytes(message.data, pattern(length, 3));
    message.release();
  });

  test('what a handler sends on is sent as it was, also when it had to wait and the message is over', async () => {
    const { client, server } = await connectPair(setUp, { server: { debugLeases: true } });
    const length = Math.min(client.maxMessageBytes, 100_000);
    const filled = await fill(server, (n) => numbered(n, Math.min(client.maxMessageBytes, 5000)));
    const echoes: Promise<void>[] = [];
    const count = 4;
    const all = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        if (echoes.push(server.send(message.data)) === count) resolve();
      });
    });
    for (let n = 0; n < count; n++) await client.send(pattern(length, n));
    await all;
    const received = await take(client, filled + count);
    await Promise.all(echoes);
    for (let n = 0; n < count; n++) expectBytes(received[filled + n]!, pattern(length, n));
  });

  test('what waited for a handler that sends it on is sent as it was, while more messages come', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 100_000);
    const filled = await fill(server, (n) => numbered(n, Math.min(client.maxMessageBytes, 5000)));
    const count = 8;
    const sent = [0, 1, 2, 3].map((n) => client.send(pattern(length, n)));
    await until(() => server.stats().messagesQueued > 1);
    const echoes: Promise<void>[] = [];
    const all = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        if (echoes.push(server.send(message.data)) === count) resolve();
      });
    });
    for (let n = 4; n < count; n++) sent.push(client.send(pattern(length, n)));
    await all;
    const received = await take(client, filled + count);
    await Promise.all([...sent, ...echoes]);
    for (let n = 0; n < count; n++) expectBytes(received[filled + n]!, pattern(length, n));
  });

  for (const filled of [false, true]) {
    test(`what is kept, sent on ${filled ? 'where there is no room ' : ''}and released is sent as it was, while more messages come`, async () => {
      const { client, server } = await connectPair(setUp);
      const length = Math.min(client.maxMessageBytes, 300_000);
      const before = filled
        ? await fill(server, (n) => numbered(n, Math.min(client.maxMessageBytes, 5000)))
        : 0;
      const count = scaled(30, 8);
      const echoes: Promise<void>[] = [];
      server.onMessage((message) => {
        message.retain();
        echoes.push(server.send(message.data));
        message.release();
      });
      const sent = Array.from({ length: count }, (_, n) => client.send(pattern(length, n)));
      if (filled) await until(() => echoes.length > count / 2);
      const received = await take(client, before + count);
      await Promise.all([...sent, ...echoes]);
      for (let n = 0; n < count; n++) expectBytes(received[before + n]!, pattern(length, n));
    });
  }

  for (const debugLeases of [false, true]) {
    test(`a handler that transfers the memory of its messages loses no others, and stalls nothing${debugLeases ? ', nor in debug mode' : ''}`, async () => {
      const { client, server } = await connectPair(setUp, { server: { debugLeases } });
      const large = Math.min(client.maxMessageBytes, 900_000);
      const rounds = Math.max(2, Math.ceil((2 * setUp.unreadBytes) / large));
      const lengths = Array.from({ length: rounds }, () => [
        Math.min(large, 12_000),
        10,
        10,
        0,
        300,
        large,
        10,
      ]).flat();
      let received = 0;
      const kept: Message[] = [];
      const all = new Promise<void>((resolve) => {
        server.onMessage((message) => {
          const { data } = message;
          expectBytes(data, pattern(lengths[received] as number, received));
          if (received % 5 === 4) kept.push(message.retain());
          else {
            // Where it may not be transferred, the one says so from Node 21 on, and the other always.
            const buffer = data.buffer as ArrayBuffer & { transfer?: () => unknown };
            try {
              if (received % 2 === 0 && buffer.transfer !== undefined) buffer.transfer();
              else structuredClone(data, { transfer: [buffer] });
            } catch (error) {
              expect(['DataCloneError', 'TypeError']).toContain((error as Error).name);
            }
          }
          if (++received === lengths.length) resolve();
        });
      });
      await Promise.all(lengths.map((length, n) => client.send(pattern(length, n))));
      await all;
      for (const [n, message] of kept.entries()) {
        const index = 5 * n + 4;
        expectBytes(message.data, pattern(lengths[index] as number, index));
        message.release();
      }
      expect(server.state).toBe('open');
    });
  }

  test('in debug mode a view that was kept by mistake is empty after the release', async () => {
    const { client, server } = await connectPair(setUp, { server: { debugLeases: true } });
    let forgotten: Uint8Array | undefined;
    const handled = nextMessage(server, (message) => {
      forgotten = message.data;
      expectBytes(forgotten, pattern(300));
    });
    await client.send(pattern(300));
    await handled;
    expect(forgotten?.byteLength).toBe(0);
  });

  test('in debug mode retained messages stay, and never stall the connection', async () => {
    const { client, server } = await connectPair(setUp, { server: { debugLeases: true } });
    const count = scaled(2000, 1000);
    const kept: Message[] = [];
    const all = new Promise<void>((resolve) => {
      server.onMessage((message) => {
        kept.push(message.retain());
        if (kept.length === count) resolve();
      });
    });
    for (let n = 0; n < count; n++) await client.send(numbered(n));
    await all;
    const views = kept.map((message) => message.data);
    expect(views.map(numberOf)).toEqual(Array.from({ length: count }, (_, n) => n));
    for (const message of kept) message.release();
    expect(views.every((view) => view.byteLength === 0)).toBe(true);
  });
}
