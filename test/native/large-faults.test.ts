// Large messages when something goes wrong on the way: each step of their life is stopped, and broken off there.
import { VerbmqError } from '@verbmq/core';
import type { RdmaTransportOptions } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { isPending, type Outcome, settled } from '../support/expectations.js';
import { expectBytes, numbered, pattern, take } from '../support/messages.js';
import { nextConnection, type Pair } from '../support/pair.js';
import {
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const KIB = 1024;
/** Copied by `send`, and lent to the device: the two ways into registered memory. */
const LENGTHS = [60 * KIB, 600 * KIB];
const SHARED: RdmaTransportOptions = { sharedReceiveQueue: { slots: 64 } };

await onSimulatedDevice('rxe', (device) => {
  /** Where the life of a large message can be stopped; each answers when the message has got there. */
  const PHASES: Record<string, (pair: Pair, send: () => void) => Promise<void>> = {
    'before the peer is told': async ({ client }, send) => {
      device.hold('hardware');
      send();
      await until(() => client.stats().bytesBuffered > 0);
    },
    'told, and not noticed': async (_pair, send) => {
      device.hold('receive-completions');
      send();
      await until(() => device.held('receive-completions') > 0);
    },
    'being read': async (_pair, send) => {
      const posted = device.calls('ibv_post_send');
      device.set('read_us', 3_600_000_000);
      send();
      await until(() => device.calls('ibv_post_send') >= posted + 2);
    },
    'read, and not noticed': async (_pair, send) => {
      device.hold('send-completions');
      const reads = device.count('reads');
      send();
      await until(() => device.count('reads') > reads);
    },
    'read, and the sender has not noticed': async ({ server }, send) => {
      device.hold('send-completions');
      const reads = device.count('reads');
      send();
      await until(() => device.count('reads') > reads);
      // From here on only the sender has something to receive: what tells it that its message was read.
      const held = device.held('receive-completions');
      device.hold('receive-completions');
      device.release('send-completions');
      await until(() => server.stats().messagesReceived > 0 && device.held('receive-completions') > held);
    },
    'in the hands of the application': async ({ server }, send) => {
      server.pause();
      send();
      await until(() => server.stats().messagesQueued > 0);
    },
  };

  // A server has receive slots of its own for each connection, or all of them share some.
  describe.each<[Personality, string, RdmaTransportOptions]>([
    ['rxe', '', {}],
    ['siw', '', {}],
    ['mlx', '', {}],
    ['rxe', ' into shared slots', SHARED],
    ['mlx', ' into shared slots', SHARED],
  ])('large messages over a device like %s%s', (personality, _, own) => {
    for (const [phase, reach] of Object.entries(PHASES)) {
      for (const [who, how] of [
        ['client', 'abort'],
        ['server', 'abort'],
        ['client', 'die'],
        ['server', 'die'],
      ] as const) {
        test(`a message ${phase} when the ${who === 'client' ? 'sender' : 'receiver'} ${how}s`, async () => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device, { ...own, heartbeatIntervalMs: 0 });
          const lengths: number[] = [];
          pair.server.onMessage(({ byteLength }) => lengths.push(byteLength));
          const sends: Promise<Outcome>[] = [];
          await reach(pair, () => {
            for (const length of LENGTHS) sends.push(settled(pair.client.send(pattern(length))));
          });
          if (how === 'abort') pair[who].abort('in the middle');
          else device.failWork(CompletionStatus.fatal);
          // What dies does so with the next work that its device begins.
          if (how === 'die') pair[who].send(numbered(1)).catch(() => {});
          for (const point of ['hardware', 'receive-completions', 'send-completions'] as const)
            device.release(point);
          const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
          expect(client.error).toBeInstanceOf(VerbmqError);
          expect(server.error).toBeInstanceOf(VerbmqError);
          for (const outcome of await Promise.all(sends))
            expect(['ok', client.error?.code]).toContain(outcome);
          for (const length of lengths) expect([4, ...LENGTHS]).toContain(length);
          await expectNothingLeft(device, pair);
        });
      }
    }

    test.each(Object.entries(CompletionStatus))(
      'a read that fails (%s) ends its connection alone',
      async (_, status) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device, own);
        const accepted = nextConnection(pair.listener);
        const other = await pair.clientTransport.connect(pair.listener.url);
        const otherServer = await accepted;
        const lengths: number[] = [];
        pair.server.onMessage(({ byteLength }) => lengths.push(byteLength));
        // The work after the frame that tells of the message: the first piece of the read, or a later one.
        device.failWork(status, 2);
        const send = settled(pair.client.send(pattern(900 * KIB)));
        const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
        expect(client.error).toBeInstanceOf(VerbmqError);
        expect(server.error).toBeInstanceOf(VerbmqError);
        expect(await send).toBe(client.error?.code);
        expect(lengths).toEqual([]);
        await other.send(pattern(100 * KIB));
        expectBytes((await take(otherServer, 1))[0]!, pattern(100 * KIB));
        await expectNothingLeft(device, pair);
      },
    );

    test('lent memory is read until the queue pair is gone, and its promise is pending so long', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, own);
      device.hold('hardware');
      const sending = pair.client.send(pattern(600 * KIB));
      sending.catch(() => {});
      await until(() => pair.client.stats().bytesBuffered > 0);
      pair.client.abort('before it was read');
      expect(await isPending(sending)).toBe(true);
      device.release('hardware');
      await expect(sending).rejects.toMatchObject({ code: 'ERR_VERBMQ_ABORTED', outcome: 'unknown' });
      await expectNothingLeft(device, pair);
    });
  });
});
