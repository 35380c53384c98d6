import { expect, test } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { failure, settled } from '../../support/expectations.js';
import { fill, numbered, numberOf, pattern, sameBytes, takeAll } from '../../support/messages.js';
import { connectPair } from '../../support/pair.js';
import { type SetUp, scaled, stretched } from '../../support/set-up.js';
import { until } from '../../support/until.js';
import { allAccess, share } from './one-sided.js';

const LOCAL = { graceful: true, initiator: 'local' };
const REMOTE = { graceful: true, initiator: 'remote' };

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

export function close(setUp: SetUp): void {
  test('everything that was accepted before close is delivered', async () => {
    const { client, server } = await connectPair(setUp);
    const count = scaled(500, 100);
    const receiving = takeAll(server);
    const sends = upTo(count).map((n) => client.send(numbered(n)));
    const closing = client.close();
    expect((await receiving).map(numberOf)).toEqual(upTo(count));
    await Promise.all(sends);
    expect(await closing).toEqual(LOCAL);
    expect(await server.closed).toEqual(REMOTE);
  });

  test('large messages that were accepted before close are delivered', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 2 * 1024 * 1024);
    const receiving = takeAll(server);
    const sends = upTo(4).map((n) => client.send(pattern(length, n)));
    const closing = client.close();
    expect((await receiving).map((bytes, n) => sameBytes(bytes, pattern(length, n)))).toEqual(
      upTo(4).map(() => true),
    );
    await Promise.all(sends);
    expect(await closing).toEqual(LOCAL);
  });

  test('what the other side had accepted is delivered too', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(server, (n) => numbered(n, length));
    const waiting = upTo(20).map((n) => server.send(numbered(sent + n, length)));
    const receiving = takeAll(client);
    expect(await client.close()).toEqual(LOCAL);
    expect((await receiving).map(numberOf)).toEqual(upTo(sent + 20));
    await Promise.all(waiting);
    expect(await server.closed).toEqual(REMOTE);
  });

  test('both sides may close at once', async () => {
    const { client, server } = await connectPair(setUp);
    const receiving = Promise.all([takeAll(client), takeAll(server)]);
    const sends = [client, server].flatMap((from) => upTo(50).map((n) => from.send(numbered(n))));
    const infos = await Promise.all([client.close(), server.close()]);
    expect(infos).toEqual([LOCAL, LOCAL]);
    await Promise.all(sends);
    const [atClient, atServer] = await receiving;
    expect(atClient.map(numberOf)).toEqual(upTo(50));
    expect(atServer.map(numberOf)).toEqual(upTo(50));
  });

  test('close waits for a peer that reads late', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = upTo(30).map((n) => client.send(numbered(sent + n, length)));
    const closing = client.close();
    await failure(client.send(numbered(0)), 'ERR_VERBMQ_CLOSED');
    expect((await takeAll(server)).map(numberOf)).toEqual(upTo(sent + 30));
    await Promise.all(waiting);
    expect(await closing).toEqual(LOCAL);
  });

  test('close gives up at its deadline, and says so', async () => {
    const { client, server } = await connectPair(setUp, { client: { closeTimeoutMs: stretched(300) } });
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = settled(client.send(numbered(sent, length)));
    expect(await client.close()).toMatchObject({
      graceful: false,
      initiator: 'local',
      error: { code: 'ERR_VERBMQ_CLOSE_TIMEOUT' },
    });
    expect(await waiting).toBe('ERR_VERBMQ_CLOSE_TIMEOUT');
    const { error } = await server.closed;
    expect(['ERR_VERBMQ_PEER_ABORTED', 'ERR_VERBMQ_CONNECTION_LOST']).toContain(error?.code);
  });

  test('the side that is closed by its peer gives up at its own deadline', async () => {
    const { client, server } = await connectPair(setUp, { server: { closeTimeoutMs: stretched(300) } });
    client.onMessage(() => {});
    client.pause();
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(server, (n) => numbered(n, length));
    const waiting = settled(server.send(numbered(sent, length)));
    const closing = client.close();
    expect(await server.closed).toMatchObject({
      graceful: false,
      initiator: 'remote',
      error: { code: 'ERR_VERBMQ_CLOSE_TIMEOUT' },
    });
    expect(await waiting).toBe('ERR_VERBMQ_CLOSE_TIMEOUT');
    expect(await closing).toMatchObject({ graceful: false });
  });

  test('a side that closes and receives nothing drops what the peer still sends', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = upTo(30).map((n) => client.send(numbered(sent + n, length)));
    expect(await server.close()).toEqual(LOCAL);
    await Promise.all(waiting);
    expect(await client.closed).toEqual(REMOTE);
  });

  test('when the peer closes, what it sent can still be read, and nothing new be sent', async () => {
    const { client, server } = await connectPair(setUp);
    await client.send(numbered(1));
    await client.send(numbered(2));
    void client.close();
    await server.closed;
    await failure(server.send(numbered(3)), 'ERR_VERBMQ_CLOSED');
    expect((await takeAll(server)).map(numberOf)).toEqual([1, 2]);
  });

  test('a loop may close the connection from its body', async () => {
    const { client, server } = await connectPair(setUp);
    for (let n = 0; n < 3; n++) await client.send(numbered(n));
    const numbers: number[] = [];
    for await (const message of server) {
      numbers.push(numberOf(message.data));
      if (numbers.length === 1) expect(await server.close()).toEqual(LOCAL);
    }
    expect(numbers).toEqual([0, 1, 2]);
    expect(await client.closed).toEqual(REMOTE);
  });

  test('drain resolves during close, and is refused after it', async () => {
    const { client, server } = await connectPair(setUp);
    const length = Math.min(client.maxMessageBytes, 5000);
    const sent = await fill(client, (n) => numbered(n, length));
    const waiting = client.send(numbered(sent, length));
    const closing = client.close();
    const drained = client.drain();
    await takeAll(server);
    await drained;
    await waiting;
    await closing;
    await failure(client.drain(), 'ERR_VERBMQ_CLOSED');
  });

  test('a buffer that was leased and not sent does not hold back close', async () => {
    const { client } = await connectPair(setUp);
    const lease = client.allocate(100);
    expect(await client.close()).toEqual(LOCAL);
    lease.release();
  });

  test('a message that is retained does not hold back close', async () => {
    const { client, server } = await connectPair(setUp);
    let kept: import('@verbmq/core').Message | undefined;
    server.onMessage((message) => {
      kept = message.retain();
    });
    await client.send(numbered(4));
    await until(() => kept !== undefined);
    expect(await client.close()).toEqual(LOCAL);
    expect(await server.closed).toEqual(REMOTE);
    expect(numberOf(kept!.data)).toBe(4);
    kept!.release();
  });

  testNeeding('oneSided', setUp)(
    'one-sided operations that were begun come to their end before close',
    async () => {
      const pair = await connectPair(setUp);
      const { owned, remote } = await share(pair, 100 * 100, allAccess(setUp));
      const writes = upTo(100).map((n) => remote.write(n * 100, pattern(100, n)));
      const reads = upTo(10).map(() => remote.read(0, 10_000));
      expect(await pair.client.close()).toEqual(LOCAL);
      await Promise.all([...writes, ...reads]);
      expect(
        upTo(100).every((n) => sameBytes(owned.data.slice(n * 100, n * 100 + 100), pattern(100, n))),
      ).toBe(true);
    },
  );

  testNeeding('oneSided', setUp)(
    'operations of the side that is closed by its peer come to their end',
    async () => {
      const pair = await connectPair(setUp);
      const { remote } = await share(pair, 10_000, allAccess(setUp));
      const reads = upTo(50).map(() => remote.read(0, 10_000));
      expect(await pair.server.close()).toEqual(LOCAL);
      await Promise.all(reads);
      expect(await pair.client.closed).toEqual(REMOTE);
    },
  );
}
