// What users of similar systems saw go wrong when things end: failed completions, flushes that come late or never,
// devices that go away, objects that stay behind. Longer than 300 lines, because it is a list.
import { stat } from 'node:fs/promises';
import { type Connection, VerbmqError } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { failure, settled } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { nextConnection, type Pair } from '../support/pair.js';
import {
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

  /** Another connection of the same transports takes a message each way. */
  async function expectNewConnectionWorks({ clientTransport, listener }: Pair): Promise<void> {
    const accepted = nextConnection(listener);
    const client = await clientTransport.connect(listener.url);
    const server = await accepted;
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      await from.send(numbered(8));
      expect((await take(to, 1)).map(numberOf)).toEqual([8]);
    }
  }

  /** Sends until the connection has ended; answers with how many sends resolved. */
  async function sendUntilItEnds(connection: Connection): Promise<number> {
    for (let n = 0; ; n++) {
      if ((await settled(connection.send(numbered(n)))) !== 'ok') return n;
      if (n % 64 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('ends over a device like %s', (personality) => {
    test.each(Object.entries(CompletionStatus))(
      'a completion that failed (%s) ends its connection alone',
      async (_name, status) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const accepted = nextConnection(pair.listener);
        const other = await pair.clientTransport.connect(pair.listener.url);
        const otherServer = await accepted;
        device.failWork(status, 20);
        await sendUntilItEnds(pair.client);
        const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
        expect(client.error).toBeInstanceOf(VerbmqError);
        expect(server.error).toBeInstanceOf(VerbmqError);
        await other.send(numbered(5));
        expect((await take(otherServer, 1)).map(numberOf)).toEqual([5]);
        await expectNothingLeft(device, pair);
      },
    );

    test('a status that has no name is told by its number', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.failWork(CompletionStatus.newerThanThisCode);
      await sendUntilItEnds(pair.client);
      expect((await pair.client.closed).error).toMatchObject({
        code: 'ERR_VERBMQ_DEVICE',
        message: expect.stringContaining('status-31'),
      });
      await pair.server.closed;
      await expectNothingLeft(device, pair);
    });

    test('a device that is slow to let go of a connection holds up neither its error nor others', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const accepted = nextConnection(pair.listener);
      const other = await pair.clientTransport.connect(pair.listener.url);
      const otherServer = await accepted;
      device.set('destroy_blocks_us', 1_000_000);
      const from = performance.now();
      device.failWork(CompletionStatus.retriesExceeded, 0);
      const sending = sendUntilItEnds(pair.client);
      const { error } = await pair.client.ending;
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST' });
      await sending;
      await other.send(numbered(5));
      expect((await take(otherServer, 1)).map(numberOf)).toEqual([5]);
      expect(pair.client.state).toBe('closing');
      await pair.client.closed;
      expect(performance.now() - from).toBeGreaterThan(1000);
      device.set('destroy_blocks_us', 0);
      await expectNothingLeft(device, pair);
    });

    test('a device that is slow to let go of many takes none of the threads that files and host names need', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const clients = [pair.client];
      while (clients.length < 6) {
        const accepted = nextConnection(pair.listener);
        clients.push(await pair.clientTransport.connect(pair.listener.url));
        await accepted;
      }
      const before = device.calls('ibv_destroy_qp');
      device.set('destroy_blocks_us', 3_600_000_000);
      for (const client of clients) client.abort('enough');
      // More than libuv has threads, each within its call.
      await until(() => device.calls('ibv_destroy_qp') - before >= clients.length);
      expect((await stat('/')).isDirectory()).toBe(true);
      device.set('destroy_blocks_us', 0);
      await expectNothingLeft(device, pair);
    });

    test.each([-1, 0, 100_000])('ends are orderly with a flush after %i µs (-1: never)', async (delay) => {
      resetForTest(device, personality);
      device.set('flush_delay_us', delay);
      const orderly = await simulatedPair(device);
      await orderly.client.send(numbered(1));
      const receiving = take(orderly.server, 1);
      await Promise.all([orderly.client.close(), orderly.server.closed]);
      expect((await receiving).map(numberOf)).toEqual([1]);
      await expectNothingLeft(device, orderly);

      const aborted = await simulatedPair(device);
      for (let n = 0; n < 30; n++) await aborted.client.send(numbered(n));
      aborted.client.abort('enough');
      expect((await aborted.server.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
      await aborted.client.closed;
      await expectNothingLeft(device, aborted);
    });

    test('a receive that cannot be posted again throws away nothing that has come', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const numbers: number[] = [];
      pair.server.onMessage((message) => {
        numbers.push(numberOf(message.data));
      });
      device.hold('receive-completions');
      for (const n of upTo(40)) await pair.client.send(numbered(n));
      await until(() => device.held('receive-completions') >= 40);
      device.failCall('ibv_post_recv', errno.ENOMEM, { times: -1 });
      device.release('receive-completions');
      const { error } = await pair.server.closed;
      expect(error).toBeInstanceOf(VerbmqError);
      expect(numbers).toEqual(upTo(40));
      await pair.client.closed;
      await expectNothingLeft(device, pair);
    });

    test('a completion queue that fails ends what depends on it, and the process goes on', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.failCall('ibv_poll_cq', errno.EIO);
      await Promise.race([sendUntilItEnds(pair.client), sendUntilItEnds(pair.server)]);
      const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
      expect(client.error).toBeInstanceOf(VerbmqError);
      expect(server.error).toBeInstanceOf(VerbmqError);
      await expectNothingLeft(device, pair);
      await expectNothingLeft(device, await simulatedPair(device));
    });

    test('an abort while sends wait for a device without room frees everything once', async () => {
      resetForTest(device, personality);
      device.set('missing_send_slots', 50);
      const pair = await simulatedPair(device);
      device.hold('send-completions');
      const sends = upTo(200).map((n) => settled(pair.client.send(numbered(n, 500))));
      await until(() => device.held('send-completions') > 0);
      pair.server.onMessage(() => pair.server.abort('within the handler'));
      pair.client.abort('while sends wait');
      device.release('send-completions');
      await Promise.all([pair.client.closed, pair.server.closed]);
      for (const outcome of await Promise.all(sends))
        expect(['ok', 'ERR_VERBMQ_ABORTED', 'ERR_VERBMQ_PEER_ABORTED']).toContain(outcome);
      await expectNothingLeft(device, pair);
    });

    test('an abort within a handler, in the middle of a batch', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      let handled = 0;
      pair.server.onMessage(() => {
        if (++handled === 10) pair.server.abort('after ten');
      });
      device.hold('receive-completions');
      for (const n of upTo(40)) await pair.client.send(numbered(n));
      await until(() => device.held('receive-completions') >= 40);
      device.release('receive-completions');
      await Promise.all([pair.client.closed, pair.server.closed]);
      expect(handled).toBe(10);
      await expectNothingLeft(device, pair);
    });

    test('two hundred connections come and go, and nothing stays', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const pinned = device.live('pinned-bytes');
      for (let n = 0; n < 200; n++) {
        const accepted = nextConnection(pair.listener);
        const client = await pair.clientTransport.connect(pair.listener.url);
        const server = await accepted;
        await client.send(numbered(n));
        if (n % 3 === 0) client.abort('by the client');
        else if (n % 3 === 1) server.abort('by the server');
        else await Promise.all([client.close(), server.close()]);
        await Promise.all([client.closed, server.closed]);
      }
      expect(device.live('qp')).toBe(2);
      expect(device.live('cm-id')).toBe(3);
      expect(device.live('mr')).toBe(4);
      expect(device.live('pinned-bytes')).toBeLessThanOrEqual(pinned);
      await expectNothingLeft(device, pair);
    });

    test('messages sent at once find receives posted', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device);
      const [server, client] = [setUp.createTransport(), setUp.createTransport()];
      const listener = await server.listen(setUp.listenAddress());
      for (let n = 0; n < 50; n++) {
        const accepted = nextConnection(listener);
        const connection = await client.connect(listener.url);
        await Promise.all(upTo(60).map((each) => connection.send(numbered(each))));
        expect((await take(await accepted, 60)).map(numberOf)).toEqual(upTo(60));
      }
      expect(device.count('rnr-answers')).toBe(0);
      await Promise.all([client.close(), server.close()]);
      await until(() => Object.keys(device.leftOver()).length === 0);
    });
  });

  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s that goes away', (personality) => {
    test('ends its connections with one clear error, and serves again when it is back', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const sending = sendUntilItEnds(pair.client);
      device.remove();
      const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
      for (const { error } of [client, server]) {
        expect(error).toBeInstanceOf(VerbmqError);
        expect(error?.code).toMatch(/ERR_VERBMQ_(DEVICE|CONNECTION_LOST)/);
      }
      await sending;
      await failure(
        pair.clientTransport.connect(pair.listener.url),
        'ERR_VERBMQ_CONNECT_FAILED',
        'ERR_VERBMQ_UNAVAILABLE',
        'ERR_VERBMQ_DEVICE',
      );
      expect(await pair.clientTransport.probe()).toMatchObject({ available: false, code: 'no-device' });
      await expectNothingLeft(device, pair);
      device.restore();
      const again = await simulatedPair(device);
      await again.client.send(numbered(3));
      expect((await take(again.server, 1)).map(numberOf)).toEqual([3]);
      await expectNothingLeft(device, again);
    });

    test('also when it never flushes', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.set('flush_delay_us', -1);
      device.remove();
      const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
      expect(client.error).toBeInstanceOf(VerbmqError);
      expect(server.error).toBeInstanceOf(VerbmqError);
      await expectNothingLeft(device, pair);
    });

    test('a port that goes down and comes back loses no message, and takes new connections', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.set('ack_timeout_us', 5000);
      const receiving = take(pair.server, 300);
      const sending = (async () => {
        for (const n of upTo(300)) {
          if (n === 100) device.setPort(false);
          if (n === 120) setTimeout(() => device.setPort(true), 10);
          await pair.client.send(numbered(n));
        }
      })();
      expect((await receiving).map(numberOf)).toEqual(upTo(300));
      await sending;
      await expectNewConnectionWorks(pair);
      await expectNothingLeft(device, pair);
    });

    test('a port that stays down ends connections in time', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.setPort(false);
      await pair.client.send(numbered(1));
      const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
      for (const { error } of [client, server]) {
        expect(error?.code).toMatch(/ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/);
      }
      device.setPort(true);
      await expectNewConnectionWorks(pair);
      await expectNothingLeft(device, pair);
    });
  });
});
