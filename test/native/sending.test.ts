// What sending costs the device: how many calls, how many copies by the post, how many completions. Counted, not timed.
import type { Connection } from '@verbmq/core';
import type { AutoConnection } from '@verbmq/core/auto';
import type { RdmaTransportOptions } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { turns } from '../support/expectations.js';
import { connectPair, type Pair } from '../support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { until } from '../support/until.js';

const HEADER_BYTES = 16;
/** Of messages of one test: ten times the receive slots. */
const COUNT = 1280;
const FEW = 320;

await onSimulatedDevice('rxe', (device) => {
  /** A pair that says nothing by itself, and a server that counts what arrives, and may send it back. */
  async function quietPair(
    own: RdmaTransportOptions = {},
    answers = false,
  ): Promise<Pair & { arrived: number; answered: number }> {
    const counts = { arrived: 0, answered: 0 };
    const pair = { ...(await simulatedPair(device, { heartbeatIntervalMs: 0, ...own })), ...counts };
    pair.server.onMessage(({ data }) => {
      pair.arrived++;
      if (answers) expect(pair.server.trySend(data)).toBe(true);
    });
    pair.client.onMessage(() => {
      pair.answered++;
    });
    return pair;
  }

  function sendInOneTick(from: Connection, count: number, bytes = 64): void {
    for (let n = 0; n < count; n++) expect(from.trySend(new Uint8Array(bytes))).toBe(true);
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('sends over a device like %s', (personality) => {
    test('those of one tick are posted with one call', async () => {
      resetForTest(device, personality);
      const pair = await quietPair();
      const chains = device.count('send-chains');
      // None of them comes to the receiver before all are sent, so that nothing else is posted meanwhile.
      device.hold('hardware');
      sendInOneTick(pair.client, 40);
      expect(device.count('send-chains')).toBe(chains);
      await new Promise((resolve) => setImmediate(resolve));
      expect(device.count('send-chains')).toBe(chains + 1);
      device.release('hardware');
      await until(() => pair.arrived === 40);
      await expectNothingLeft(device, pair);
    });

    test('answers to messages that arrive together are posted with one call', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({}, true);
      device.hold('receive-completions');
      sendInOneTick(pair.client, 40);
      await until(() => device.held('receive-completions') === 40);
      device.hold('send-completions');
      const chains = device.count('send-chains');
      const sends = device.calls('ibv_post_send');
      device.release('receive-completions');
      device.hold('receive-completions');
      await until(() => device.held('receive-completions') >= 40);
      expect(pair.arrived).toBe(40);
      expect(device.calls('ibv_post_send')).toBeGreaterThanOrEqual(sends + 40);
      expect(device.count('send-chains')).toBe(chains + 1);
      device.release('receive-completions');
      device.release('send-completions');
      await expectNothingLeft(device, pair);
    });

    test('answers leave before the microtasks of the handlers run, and what those send leaves after them', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
      const seen: number[] = [];
      const order: number[] = [];
      const before = device.count('send-chains') + 1; // the question
      pair.server.onMessage(({ data }) => {
        expect(pair.server.trySend(data)).toBe(true);
        seen.push(device.count('send-chains') - before);
        queueMicrotask(() => {
          seen.push(device.count('send-chains') - before);
          expect(pair.server.trySend(Uint8Array.of(2))).toBe(true);
        });
      });
      pair.client.onMessage(({ data }) => order.push(data[0] as number));
      expect(pair.client.trySend(Uint8Array.of(1))).toBe(true);
      await until(() => order.length === 2);
      expect(seen).toEqual([0, 1]);
      expect(order).toEqual([1, 2]);
      await expectNothingLeft(device, pair);
    });

    test('one in a quarter of the slots asks for a completion', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({ sendSlots: 64 });
      const before = device.count('signalled');
      for (let n = 0; n < 20; n++) {
        sendInOneTick(pair.client, 32);
        await until(() => pair.arrived === (n + 1) * 32);
      }
      // 640 messages, each 16th of which is signalled; beside them the credits that the receiver gives back.
      const asked = device.count('signalled') - before;
      expect(asked).toBeGreaterThanOrEqual(40);
      expect(asked).toBeLessThan(60);
      await expectNothingLeft(device, pair);
    });

    test('what fits the limit that the device grants is copied by the post, and nothing longer', async () => {
      resetForTest(device, personality);
      // The limit cannot be asked for: 256 bytes are tried, and half of it until the device takes it.
      const granted = personality === 'siw' ? 64 : 256;
      const pair = await quietPair();
      const copiedOf = async (bytes: number): Promise<number> => {
        const [before, arrived] = [device.count('inline'), pair.arrived];
        sendInOneTick(pair.client, 1, bytes);
        await until(() => pair.arrived === arrived + 1);
        return device.count('inline') - before;
      };
      expect(await copiedOf(granted - HEADER_BYTES)).toBe(1);
      expect(await copiedOf(granted - HEADER_BYTES + 1)).toBe(0);
      expect(await copiedOf(0)).toBe(1);
      await expectNothingLeft(device, pair);
    });

    test('a peer without room shuts the gate, and its room opens it', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({ receiveSlots: 8, sendSlots: 64 });
      device.hold('receive-completions');
      // The peer has 8 slots, and nothing is sent without one: no receiver is ever not ready.
      sendInOneTick(pair.client, 8);
      expect(pair.client.trySend(new Uint8Array(64))).toBe(false);
      const ninth = pair.client.send(new Uint8Array(64));
      await until(() => device.held('receive-completions') === 8);
      expect(pair.arrived).toBe(0);
      device.release('receive-completions');
      await ninth;
      await until(() => pair.arrived === 9);
      expect(device.count('rnr-answers')).toBe(0);
      await expectNothingLeft(device, pair);
    });

    test('an own queue without room shuts the gate, and completions open it', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({ receiveSlots: 128, sendSlots: 8 });
      device.hold('send-completions');
      sendInOneTick(pair.client, 8);
      expect(pair.client.trySend(new Uint8Array(64))).toBe(false);
      const ninth = pair.client.send(new Uint8Array(64));
      // The peer has them and room for more; only the completions are missing.
      await until(() => pair.arrived === 8 && device.held('send-completions') > 0);
      expect(pair.client.trySend(new Uint8Array(64))).toBe(false);
      device.release('send-completions');
      await ninth;
      await until(() => pair.arrived === 9);
      await expectNothingLeft(device, pair);
    });

    test('receives are posted in groups, and one frame gives many slots back', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({ receiveSlots: 128 });
      const [posts, sends] = [device.count('receive-chains'), device.count('sends')];
      const frames = (): number => device.count('sends') - sends - COUNT;
      for (let n = 1; n <= COUNT; n++) {
        sendInOneTick(pair.client, 1);
        await until(() => pair.arrived === n);
      }
      // A frame for each half of the slots; the room that these take goes back with messages.
      await until(() => frames() >= COUNT / 64);
      await turns();
      expect(frames()).toBe(COUNT / 64);
      // An eighth of the slots at a time, and at once those of the frames, of which the first opened the connection.
      expect(device.count('receive-chains') - posts).toBeLessThanOrEqual(COUNT / 16 + COUNT / 64 + 1);
      await expectNothingLeft(device, pair);
    });

    test('to look at the statistics between messages costs no frame', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({ receiveSlots: 128 }, true);
      const sends = device.count('sends');
      for (let n = 1; n <= FEW; n++) {
        sendInOneTick(pair.client, 1);
        pair.client.stats();
        pair.clientTransport.stats(); // which looks again
        await until(() => pair.answered === n);
        pair.server.stats();
      }
      await turns();
      // Some more where this machine was busy for so long that nothing seemed to be sent any more.
      expect(device.count('sends') - sends).toBeLessThan(2.1 * FEW);
      await expectNothingLeft(device, pair);
    });

    test('to look again and again while nothing is sent costs one frame, and shows that all has left', async () => {
      resetForTest(device, personality);
      const pair = await quietPair();
      const sends = device.count('sends');
      sendInOneTick(pair.client, 5);
      expect(pair.client.stats().bytesBuffered).toBe(5 * (64 + HEADER_BYTES));
      await until(() => pair.arrived === 5 && pair.client.stats().bytesBuffered === 0);
      for (let n = 0; n < 10; n++) pair.client.stats();
      await turns();
      expect(device.count('sends') - sends).toBe(6);
      await expectNothingLeft(device, pair);
    });

    test('one frame at a time asks for those who wait until all has left', async () => {
      resetForTest(device, personality);
      const pair = await quietPair({ sendSlots: 64 });
      device.hold('send-completions');
      const sends = device.count('sends');
      const draining: Promise<void>[] = [];
      for (let n = 1; n <= 10; n++) {
        sendInOneTick(pair.client, 1);
        draining.push(pair.client.drain());
        await until(() => pair.arrived === n);
      }
      expect(device.count('sends') - sends).toBe(11);
      device.release('send-completions');
      await Promise.all(draining);
      expect(pair.client.stats().bytesBuffered).toBe(0);
      expect(device.count('sends') - sends).toBe(12);
      await expectNothingLeft(device, pair);
    });

    test('to look at an auto connection between messages costs no frame', async () => {
      resetForTest(device, personality);
      const setUp = autoOverSimulatedRdmaSetUp(device);
      const framesOf = async (look: (connection: Connection) => void): Promise<number> => {
        const { client, server } = await connectPair(setUp, { both: { heartbeatIntervalMs: 0 } });
        await until(() => (client as AutoConnection).path.fast && (server as AutoConnection).path.fast);
        server.onMessage(({ data }) => void server.send(data));
        let answered = 0;
        client.onMessage(() => answered++);
        const sends = device.count('sends');
        for (let n = 1; n <= FEW; n++) {
          await client.send(new Uint8Array(64));
          look(client);
          await until(() => answered === n);
          look(server);
        }
        return device.count('sends') - sends;
      };
      const frames = await framesOf(() => {});
      expect(frames).toBeLessThan(2.1 * FEW);
      // One more for each look would be twice as many; some more or fewer is how busy the machine was.
      expect(Math.abs((await framesOf((connection) => void connection.stats())) - frames)).toBeLessThan(
        FEW / 10,
      );
    });

    test.each([1, 40])(
      'answers give the slots back: no frame is sent for that (%i at a time)',
      async (burst) => {
        resetForTest(device, personality);
        const pair = await quietPair({ receiveSlots: 128 }, true);
        const [posts, sends] = [device.count('receive-chains'), device.count('sends')];
        for (let n = burst; n <= COUNT; n += burst) {
          sendInOneTick(pair.client, burst);
          await until(() => pair.answered === n);
        }
        await turns();
        expect(device.count('sends') - sends).toBe(2 * COUNT);
        expect(device.count('receive-chains') - posts).toBeLessThanOrEqual((2 * COUNT) / 16 + 1);
        await expectNothingLeft(device, pair);
      },
    );
  });
});
