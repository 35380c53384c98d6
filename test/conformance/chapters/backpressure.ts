import { expect, test } from 'vitest';
import { failure, isPending } from '../../support/expectations.js';
import { fill, numbered, numberOf, take } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { type SetUp, scaled } from '../../support/set-up.js';
import { until } from '../../support/until.js';

export function backpressure(setUp: SetUp): void {
  test('a sender whose peer does not read waits, after a bounded number of bytes', async () => {
    const { client } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 1000);
    const sent = await fill(client, (n) => numbered(n, length));
    expect(sent).toBeGreaterThan(0);
    expect(sent * length).toBeLessThanOrEqual(setUp.unreadBytes + length);
    const waiting = client.send(numbered(sent, length));
    waiting.catch(() => {});
    expect(await isPending(waiting)).toBe(true);
    expect(client.stats()).toMatchObject({ sendsWaiting: 1, bytesWaiting: length, messagesSent: sent });
    expect(client.stats().backpressureEvents).toBeGreaterThan(0);
  });

  test('when the receiver reads again everything arrives, in order', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 2000);
    const sent = await fill(client, (n) => numbered(n, length));
    const more = scaled(200, 50);
    const waiting = Array.from({ length: more }, (_, n) => client.send(numbered(sent + n, length)));
    expect(client.stats().sendsWaiting).toBe(more);
    const received = await take(server, sent + more);
    expect(received.map(numberOf)).toEqual(Array.from({ length: sent + more }, (_, n) => n));
    await Promise.all(waiting);
    expect(client.stats()).toMatchObject({ sendsWaiting: 0, bytesWaiting: 0 });
  });

  test('the other direction goes on while one is held back', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    await fill(client, (n) => numbered(n, length));
    const receiving = take(client, 50);
    for (let n = 0; n < 50; n++) await server.send(numbered(n));
    expect((await receiving).map(numberOf)).toEqual(Array.from({ length: 50 }, (_, n) => n));
  });

  test('both directions may be held back at once, and both go on', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const fromClient = await fill(client, (n) => numbered(n, length));
    const fromServer = await fill(server, (n) => numbered(n, length));
    const last = [client.send(numbered(fromClient, length)), server.send(numbered(fromServer, length))];
    const atServer = await take(server, fromClient + 1);
    const atClient = await take(client, fromServer + 1);
    await Promise.all(last);
    expect(numberOf(atServer.at(-1)!)).toBe(fromClient);
    expect(numberOf(atClient.at(-1)!)).toBe(fromServer);
  });

  test('a handler that is paused holds back the peer', async () => {
    const { client, server } = await connectPair(setUp);
    const numbers: number[] = [];
    server.onMessage((message) => numbers.push(numberOf(message.data)));
    server.pause();
    const length = Math.min(client.maxMessageBytes, 2000);
    const sent = await fill(client, (n) => numbered(n, length));
    expect(numbers).toEqual([]);
    const last = client.send(numbered(sent, length));
    server.resume();
    await last;
    await client.drain();
    await until(() => numbers.length > sent);
    expect(numbers).toEqual(Array.from({ length: sent + 1 }, (_, n) => n));
  });

  test('over the high-water mark send waits until bytes have left', async () => {
    const { client, server } = await connectPair(setUp, { client: { highWaterMarkBytes: 2000 } });
    const count = scaled(100, 30);
    const receiving = take(server, count);
    let mostBuffered = 0;
    for (let n = 0; n < count; n++) {
      await client.send(numbered(n, 1500));
      mostBuffered = Math.max(mostBuffered, client.stats().bytesBuffered);
    }
    expect((await receiving).length).toBe(count);
    expect(mostBuffered).toBeLessThanOrEqual(2000 + 2 * 1600); // the mark, and the message that crosses it, with headers
  });

  test('a program that never awaits its sends is refused, and those that wait are not lost', async () => {
    const { client, server } = await connectPair(setUp, { client: { maxQueuedBytes: 14_000 } });
    const length = Math.min(client.maxMessageBytes, 1000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting: Promise<void>[] = [];
    let refused: Promise<void> | undefined;
    for (let n = sent; refused === undefined; n++) {
      const before = client.stats().sendsWaiting;
      const send = client.send(numbered(n, length));
      if (client.stats().sendsWaiting === before) refused = send;
      else waiting.push(send);
    }
    const error = await failure(refused, 'ERR_VERBMQ_SEND_QUEUE_FULL');
    expect(error.retryable).toBe(true);
    expect(waiting.length).toBe(Math.floor(14_000 / (length + 512))); // with what each takes besides
    const received = await take(server, sent + waiting.length);
    await Promise.all(waiting);
    expect(received.map(numberOf)).toEqual(Array.from({ length: received.length }, (_, n) => n));
  });

  test('a message longer than maxQueuedBytes waits all the same when it is the only one', async () => {
    const { client, server } = await connectPair(setUp, { client: { maxQueuedBytes: 100 } });
    const length = Math.min(client.maxMessageBytes, 1000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = client.send(numbered(sent, length));
    expect(client.stats().sendsWaiting).toBe(1);
    expect((await take(server, sent + 1)).length).toBe(sent + 1);
    await waiting;
  });

  test('drain resolves when nothing is left in this process', async () => {
    const { client, server } = await connectPair(setUp);
    await client.drain();
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = client.send(numbered(sent, length));
    const drained = client.drain();
    expect(await isPending(drained)).toBe(true);
    const receiving = take(server, sent + 1);
    await drained;
    expect(client.stats()).toMatchObject({ bytesBuffered: 0, bytesWaiting: 0, sendsWaiting: 0 });
    await waiting;
    await receiving;
  });
}
