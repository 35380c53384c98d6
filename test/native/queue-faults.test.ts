// What users of similar systems saw go wrong with queues, completions and credits, each brought about on purpose. Longer than 300 lines, because it is a list.
import type { Connection } from '@verbmq/core';
import type { Polling } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { nextConnection, type Pair } from '../support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { uncaughtException } from '../support/uncaught.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

  async function sendAll(from: Connection, count: number, length = 4): Promise<void> {
    for (let n = 0; n < count; n++) await from.send(numbered(n, length));
  }

  /** Each message is followed by a control frame that tells when it has left. */
  async function sendAndDrain(from: Connection, count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      await from.send(numbered(n));
      await from.drain();
    }
  }

  /** Sends `count` numbered messages each way at once, and finds all of them in order. */
  async function crossedTraffic({ client, server }: Pair, count: number): Promise<void> {
    const [atServer, atClient] = await Promise.all([
      take(server, count),
      take(client, count),
      sendAll(client, count),
      sendAll(server, count),
    ]);
    expect(atServer.map(numberOf)).toEqual(upTo(count));
    expect(atClient.map(numberOf)).toEqual(upTo(count));
  }

  /** Sends a message, and the next one when the answer is there, two hundred times; gives the answers as they come. */
  function echoes({ client, server }: Pair): number[] {
    const numbers: number[] = [];
    const send = (to: Connection, n: number): void => {
      to.send(numbered(n)).catch(() => {}); // the end of the connection tells why
    };
    server.onMessage(({ data }) => send(server, numberOf(data)));
    client.onMessage(({ data }) => {
      numbers.push(numberOf(data));
      if (numbers.length < 200) send(client, numbers.length);
    });
    send(client, 0);
    return numbers;
  }

  /** Another connection of the same transports. */
  async function oneMore(pair: Pair): Promise<Pair> {
    const accepted = nextConnection(pair.listener);
    const client = await pair.clientTransport.connect(pair.listener.url);
    return { ...pair, client, server: await accepted };
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('queues of a device like %s', (personality) => {
    test('a credit that overtakes the completion of its send overflows no queue', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.hold('send-completions');
      const receiving = take(pair.server, 500);
      const sending = sendAll(pair.client, 500);
      // The receiver gives every credit back, while no send of ours has completed: its queue is what holds us back.
      await until(() => device.held('send-completions') > 0 && pair.client.stats().bytesBuffered > 0);
      expect(pair.client.state).toBe('open');
      device.release('send-completions');
      expect((await receiving).map(numberOf)).toEqual(upTo(500));
      await sending;
      expect(device.count('rnr-answers')).toBe(0);
      await expectNothingLeft(device, pair);
    });

    test('credits use queues within bounds: no receiver is ever not ready', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { receiveSlots: 4, sendSlots: 4 });
      device.set('completion_jitter_us', 300);
      const [received] = await Promise.all([take(pair.server, 2000), sendAll(pair.client, 2000)]);
      expect(received.map(numberOf)).toEqual(upTo(2000));
      await crossedTraffic(pair, 500);
      expect(device.count('rnr-answers')).toBe(0);
      expect(device.count('cq-overruns')).toBe(0);
      await expectNothingLeft(device, pair);
    });

    test.each<Polling>(['event', 'adaptive', 'busy'])(
      'no wake-up is lost, whenever completions and events come (polling: %s)',
      async (polling) => {
        resetForTest(device, personality);
        // No heartbeat wakes who has overslept. Spinning ends while completions still come.
        const quiet = { heartbeatIntervalMs: 0, spinMicros: 150 };
        const pair = await simulatedPair(device, { ...quiet, polling });
        device.set('completion_jitter_us', 200);
        device.set('cq_event_delay_us', 50);
        pair.server.onMessage(async (message) => {
          await pair.server.send(message.data);
        });
        // Of two messages one is on its way when the queue is armed after the other.
        for (let n = 0; n < 600; n += 2) {
          device.set('jitter_seed', n + 1);
          device.set('completions_race_arming', Math.floor(n / 2) % 2);
          const echoes = take(pair.client, 2);
          await Promise.all([n, n + 1].map((each) => pair.client.send(numbered(each))));
          expect((await echoes).map(numberOf)).toEqual([n, n + 1]);
        }
        await expectNothingLeft(device, pair);
      },
    );

    test.each<Polling>(['event', 'adaptive'])(
      'a wake-up that the device does lose is found out by the heartbeat (polling: %s)',
      async (polling) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device, { polling, spinMicros: 0 });
        device.dropCqEvents(1);
        const numbers = echoes(pair);
        // Either the messages come in the end, or both sides learn that they cannot.
        const outcome = await Promise.race([
          until(() => numbers.length === 200 && device.count('lost-cq-events') === 1).then(() => 'delivered'),
          Promise.all([pair.client.closed, pair.server.closed]).then(([one, other]) => [
            one.error?.code,
            other.error?.code,
          ]),
        ]);
        expect(device.count('lost-cq-events')).toBe(1);
        if (outcome !== 'delivered') expect(outcome).toContain('ERR_VERBMQ_PEER_TIMEOUT');
        await expectNothingLeft(device, pair);
      },
    );

    test('connections on several completion queues are all served', async () => {
      resetForTest(device, personality);
      device.set('max_cqe', 300);
      const first = await simulatedPair(device, { polling: 'event' });
      const connections = [first];
      for (let n = 0; n < 5; n++) connections.push(await oneMore(first));
      expect(device.live('cq')).toBeGreaterThan(2);
      await Promise.all(connections.map((pair) => crossedTraffic(pair, 100)));
      expect(device.count('cq-overruns')).toBe(0);
      await expectNothingLeft(device, first);
    });

    test('no wake-up is lost on any of several completion queues', async () => {
      resetForTest(device, personality);
      // Each connection has a queue of its own, and no heartbeat wakes who has overslept.
      device.set('max_cqe', 300);
      const first = await simulatedPair(device, { heartbeatIntervalMs: 0, polling: 'event' });
      const later = [await oneMore(first), await oneMore(first)];
      expect(device.live('cq')).toBe(6);
      device.set('completion_jitter_us', 200);
      device.set('cq_event_delay_us', 50);
      for (const { server } of later) {
        server.onMessage(async ({ data }) => {
          await server.send(data);
        });
      }
      // As with one queue. The first is silent throughout, and of the others one at a time is in use.
      for (let n = 0; n < 600; n += 2) {
        device.set('jitter_seed', n + 1);
        device.set('completions_race_arming', Math.floor(n / 4) % 2);
        const { client } = later[Math.floor(n / 2) % 2]!;
        const echoes = take(client, 2);
        await Promise.all([n, n + 1].map((each) => client.send(numbered(each))));
        expect((await echoes).map(numberOf)).toEqual([n, n + 1]);
      }
      await expectNothingLeft(device, first);
    });

    test('kept messages do not stall the ring, and may go in any order', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { receiveSlots: 8, sendSlots: 8 });
      const kept: { data: Uint8Array; release(): void }[] = [];
      pair.server.onMessage((message) => {
        kept.push(message.retain());
      });
      await sendAll(pair.client, 400, 1000);
      await until(() => kept.length === 400);
      // Released from the middle outwards, with traffic between.
      for (let n = 0; n < 200; n++) {
        const later = kept[200 + n]!;
        const earlier = kept[199 - n]!;
        expect([numberOf(earlier.data), numberOf(later.data)]).toEqual([199 - n, 200 + n]);
        earlier.release();
        later.release();
        await pair.client.send(numbered(400 + n, 1000));
      }
      await until(() => kept.length === 600);
      expect(kept.slice(400).map(({ data }) => numberOf(data))).toEqual(upTo(200).map((n) => 400 + n));
      await expectNothingLeft(device, pair);
    });

    test('a handler that throws loses no other message of the batch', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const numbers: number[] = [];
      const uncaught = uncaughtException();
      pair.server.onMessage((message) => {
        numbers.push(numberOf(message.data));
        if (numbers.length === 10) throw new Error('thrown by the handler');
      });
      device.hold('receive-completions');
      await Promise.all(upTo(40).map((n) => pair.client.send(numbered(n))));
      await until(() => device.held('receive-completions') >= 40);
      device.release('receive-completions');
      await until(() => numbers.length === 40);
      expect(numbers).toEqual(upTo(40));
      expect(await uncaught).toMatchObject({ message: 'thrown by the handler' });
    });

    test.each([
      ['own receive slots', {}, 8],
      ['shared receive slots', { sharedReceiveQueue: { slots: 64 } }, 4],
    ])('control frames that cross leave room for what gives their slots back (%s)', async (_, own, slots) => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { ...own, heartbeatIntervalMs: 0 });
      await Promise.all([take(pair.client, 1), sendAll(pair.server, 1)]);
      device.hold('receive-completions');
      const sending = [sendAndDrain(pair.client, slots), sendAndDrain(pair.server, 8)];
      // All of the messages, and all of the other frames but one in each direction.
      await until(() => device.held('receive-completions') >= 2 * (slots + 8) - 2);
      await turns();
      device.release('receive-completions');
      await Promise.all(sending);
      await Promise.all([pair.client.close(), pair.server.close()]);
      for (const { closed } of [pair.client, pair.server])
        expect(await closed).toMatchObject({ graceful: true });
      await expectNothingLeft(device, pair);
    });

    test('a message brings what a control frame waits for, also to an application that has paused', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
      await Promise.all([take(pair.client, 1), sendAll(pair.server, 1)]);
      pair.client.pause();
      pair.server.onMessage(({ data }) => {
        if (numberOf(data) === 0) void pair.server.send(data);
      });
      device.hold('receive-completions');
      const sending = sendAndDrain(pair.client, 8);
      await until(() => device.held('receive-completions') >= 15);
      await turns();
      device.release('receive-completions');
      await sending;
      expect(pair.client.stats().messagesQueued).toBe(1);
      pair.client.onMessage(() => {});
      pair.client.resume();
      await expectNothingLeft(device, pair);
    });

    test('a full send queue is backpressure', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      // The device has room for 60 sends less than it said, and takes its time.
      device.set('missing_send_slots', 60);
      device.set('send_completion_delay_us', 200);
      const refusals = device.calls('ibv_post_send') - device.count('sends');
      await Promise.all([crossedTraffic(pair, 500), until(() => pair.client.stats().bytesBuffered > 0)]);
      expect(device.calls('ibv_post_send') - device.count('sends')).toBeGreaterThan(refusals);
      await expectNothingLeft(device, pair);
    });
  });

  // iWARP leaves it to TCP to give up.
  test.each<Personality>(['rxe', 'mlx'])(
    'connections that fail at full load overrun no completion queue (a device like %s)',
    async (personality) => {
      resetForTest(device, personality);
      const slots = 1024;
      const sizes = { slotBytes: 128, receiveSlots: slots, sendSlots: slots };
      const first = await simulatedPair(device, { ...sizes, heartbeatIntervalMs: 0 });
      const pairs = [first, await oneMore(first), await oneMore(first)];
      const ends = pairs.flatMap(({ client, server }) => [client, server]);
      device.hold('hardware');
      await Promise.all(ends.map((end) => sendAll(end, slots)));
      await until(() => device.held('hardware') >= ends.length * slots);
      // Only what fails gives a completion for each send, signalled or not, and for each receive.
      device.hold('send-completions');
      device.hold('receive-completions');
      device.set('ack_timeout_us', 1000);
      device.setPort(false);
      device.release('hardware');
      const held = () => device.held('send-completions') + device.held('receive-completions');
      await until(() => held() >= ends.length * 2 * slots);
      // All at once: nobody polls in between.
      device.release('send-completions');
      device.release('receive-completions');
      for (const end of ends) expect((await end.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
      expect(device.count('cq-overruns')).toBe(0);
      await expectNothingLeft(device, first);
    },
  );

  test.each<[string, string, Polling]>([
    ['polled', 'ibv_poll_cq', 'event'],
    ['polled', 'ibv_poll_cq', 'adaptive'],
    ['polled', 'ibv_poll_cq', 'busy'],
    ['armed', 'ibv_req_notify_cq', 'event'],
    ['armed', 'ibv_req_notify_cq', 'adaptive'],
  ])(
    'a completion queue that cannot be %s (%s) ends its connections though nothing else happens (polling: %s)',
    async (_, symbol, polling) => {
      resetForTest(device, 'rxe');
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0, polling });
      await Promise.all([sendAll(pair.client, 1), take(pair.server, 1)]);
      device.failCall(symbol, errno.EIO);
      await pair.client.send(numbered(1));
      const ends = await Promise.all([pair.client.closed, pair.server.closed]);
      expect(ends.map(({ error }) => error?.code).sort()).toEqual([
        'ERR_VERBMQ_CONNECTION_LOST',
        'ERR_VERBMQ_DEVICE',
      ]);
      await expectNothingLeft(device, pair);
    },
  );

  test.each(['event', 'adaptive', 'busy'] as const)(
    'a send that the device refuses for a while leaves though nothing else happens (polling: %s)',
    async (polling) => {
      resetForTest(device, 'rxe');
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0, polling, spinMicros: 1 });
      await Promise.all([sendAll(pair.client, 1), take(pair.server, 1)]);
      for (const n of [1, 2]) {
        const receiving = take(pair.server, 1);
        device.failCall('ibv_post_send', errno.ENOMEM, { times: 5 });
        await pair.client.send(numbered(n));
        expect((await receiving).map(numberOf)).toEqual([n]);
      }
      await expectNothingLeft(device, pair);
    },
  );

  test('a device that refuses a send and does not say which loses the connection, and no message in silence', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device);
    await Promise.all([sendAll(pair.client, 3), take(pair.server, 3)]);
    device.set('refusals_unnamed', 1);
    // As when its queue is full, which it would say of the first that finds no place.
    device.failCall('ibv_post_send', errno.ENOMEM);
    await pair.client.send(numbered(3));
    const { error } = await pair.client.closed;
    expect(error?.code).toBeOneOf(['ERR_VERBMQ_NO_BUFFERS', 'ERR_VERBMQ_MEMLOCK']);
    await pair.server.closed;
    await expectNothingLeft(device, pair);
  });

  describe('a receiver that is not ready', () => {
    test.each<Personality>(['rxe', 'mlx'])(
      'is asked again soon: the longest wait is not the default (a device like %s)',
      async (personality) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        device.receiverNotReady(3);
        await crossedTraffic(pair, 1);
        // min_rnr_timer 0 would mean 655 ms each time.
        expect(device.count('rnr-wait-us')).toBeLessThan(3 * 10_000);
        expect(device.count('rnr-answers')).toBe(3);
        await expectNothingLeft(device, pair);
      },
    );

    test.each<Personality>(['rxe', 'mlx'])(
      'is not asked for ever (a device like %s)',
      async (personality) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
        device.receiverNotReady(1_000_000);
        await pair.client.send(numbered(1));
        const { error } = await pair.client.closed;
        expect(error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
        expect(device.count('rnr-answers')).toBeLessThan(20);
        device.receiverNotReady(0);
        await expectNothingLeft(device, pair);
      },
    );

    test('ends its connection over iWARP, which cannot ask again, and no other', async () => {
      resetForTest(device, 'siw');
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
      const other = await oneMore(pair);
      device.receiverNotReady(1);
      await pair.client.send(numbered(1)).catch(() => {});
      for (const { closed } of [pair.client, pair.server])
        expect((await closed).error?.code).toBeOneOf(['ERR_VERBMQ_CONNECTION_LOST', 'ERR_VERBMQ_DEVICE']);
      await crossedTraffic(other, 10);
      await expectNothingLeft(device, pair);
    });
  });
});
