import { expect, test } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { failure, outcomeOf, settled } from '../../support/expectations.js';
import { fill, numbered, pattern, takeAll } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { until } from '../../support/until.js';
import { allAccess, share } from './one-sided.js';

const ABORTED = 'ERR_VERBMQ_ABORTED';

export function aborts(setUp: SetUp): void {
  test('abort ends both sides at once, and the peer is told why', async () => {
    const { client, server } = await connectPair(setUp);
    client.abort('the moon is full');
    const mine = await client.closed;
    expect(mine).toMatchObject({ graceful: false, initiator: 'local', error: { code: ABORTED } });
    expect(mine.error?.message).toContain('the moon is full');
    const theirs = await server.closed;
    expect(theirs).toMatchObject({
      graceful: false,
      initiator: 'remote',
      error: { code: 'ERR_VERBMQ_PEER_ABORTED' },
    });
    expect(theirs.error?.message).toContain('the moon is full');
  });

  test('a long reason is cut between characters', async () => {
    const { client, server } = await connectPair(setUp);
    client.abort('ü€'.repeat(1000));
    const { error } = await server.closed;
    expect(error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
    expect(error?.message).toContain('ü€ü€');
    expect(error?.message).not.toContain('\ufffd');
    expect(error?.message.length).toBeLessThan(1200);
  });

  test('abort with sends waiting fails each of them, and drain', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = Array.from({ length: 10 }, (_, n) => settled(client.send(numbered(sent + n, length))));
    const drained = settled(client.drain());
    client.abort();
    expect(await Promise.all(waiting)).toEqual(Array(10).fill(ABORTED));
    expect(await drained).toBe(ABORTED);
    const { error } = await server.closed;
    expect(['ERR_VERBMQ_PEER_ABORTED', 'ERR_VERBMQ_CONNECTION_LOST']).toContain(error?.code);
  });

  test('abort fails a loop that waits, at once', async () => {
    const { client, server } = await connectPair(setUp);
    const mine = takeAll(client);
    const theirs = takeAll(server);
    client.abort();
    await failure(mine, ABORTED);
    await failure(theirs, 'ERR_VERBMQ_PEER_ABORTED');
  });

  test('abort drops the messages that nobody has taken here', async () => {
    const { client, server } = await connectPair(setUp);
    await client.send(numbered(1));
    await until(() => server.stats().messagesQueued === 1);
    server.abort();
    expect(server.stats().messagesQueued).toBe(0);
    await failure(takeAll(server), ABORTED);
  });

  test('abort during close ends it, and close says so', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = settled(client.send(numbered(sent, length)));
    const closing = client.close();
    client.abort('it takes too long');
    expect(await closing).toMatchObject({ graceful: false, initiator: 'local', error: { code: ABORTED } });
    expect(await waiting).toBe(ABORTED);
    expect((await server.closed).graceful).toBe(false);
  });

  test('abort on the side that is being closed ends both', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = settled(client.send(numbered(sent, length)));
    const closing = client.close();
    server.abort('no time');
    expect(await closing).toMatchObject({ graceful: false, initiator: 'remote' });
    expect(['ERR_VERBMQ_PEER_ABORTED', 'ERR_VERBMQ_CONNECTION_LOST']).toContain(await waiting);
  });

  test('abort half way through a large message delivers no part of it', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 16 * 1024 * 1024);
    const received: number[] = [];
    server.onMessage((message) => received.push(message.byteLength));
    const first = client.send(pattern(1000));
    const large = settled(client.send(pattern(length)));
    await first;
    client.abort('half way');
    expect(['ok', ABORTED]).toContain(await large);
    await server.closed;
    expect(received.filter((bytes) => bytes !== 1000 && bytes !== length)).toEqual([]);
  });

  test('abort of the receiver half way through a large message fails the sender', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 2 * 1024 * 1024);
    const sends = Array.from({ length: 8 }, () => settled(client.send(pattern(length))));
    server.onMessage(() => server.abort('too large for me'));
    const { error } = await client.closed;
    expect(['ERR_VERBMQ_PEER_ABORTED', 'ERR_VERBMQ_CONNECTION_LOST']).toContain(error?.code);
    for (const outcome of await Promise.all(sends)) expect(['ok', error?.code]).toContain(outcome);
  });

  test('both sides may abort at once', async () => {
    const { client, server } = await connectPair(setUp);
    client.abort('here');
    server.abort('there');
    expect((await client.closed).error?.code).toBe(ABORTED);
    expect((await server.closed).error?.code).toBe(ABORTED);
  });

  test('only the first abort counts, and one after the end does nothing', async () => {
    const { client } = await connectPair(setUp);
    client.abort('first');
    client.abort('second');
    const info = await client.closed;
    expect(info.error?.message).toContain('first');
    client.abort('third');
    expect(await client.close()).toBe(info);
  });

  test('an orderly end is not changed by a later abort', async () => {
    const { client, server } = await connectPair(setUp);
    const info = await client.close();
    await server.closed;
    client.abort('too late');
    expect(info).toEqual({ graceful: true, initiator: 'local' });
    expect(await client.closed).toBe(info);
  });

  testNeeding('oneSided', setUp)('abort settles the one-sided operations that are under way', async () => {
    const pair = await connectPair(setUp);
    const { remote } = await share(pair, 100_000, allAccess(setUp));
    const operations = Array.from({ length: 20 }, (_, n) =>
      outcomeOf(() => (n % 2 === 0 ? remote.read(0, 100_000) : remote.write(0, pattern(100_000)))),
    );
    pair.client.abort();
    for (const outcome of await Promise.all(operations)) expect(['ok', ABORTED]).toContain(outcome);
    await failure(remote.read(0, 1), 'ERR_VERBMQ_CLOSED');
  });

  testNeeding('oneSided', setUp)('a write that was under way says that its outcome is unknown', async () => {
    const pair = await connectPair(setUp);
    const { remote } = await share(pair, 100_000, allAccess(setUp));
    const write = remote.write(0, pattern(100_000));
    pair.client.abort();
    const error: unknown = await write.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error !== undefined)
      expect(error).toMatchObject({ code: ABORTED, outcome: 'unknown', retryable: false });
  });
}
