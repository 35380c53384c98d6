// Shared receive slots where something goes wrong: those that are left use all of them, and new connections can be made.
import { RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import { describe, expect, onTestFinished, test } from 'vitest';
import { turns } from '../support/expectations.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import {
  AsyncEvent,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, SHORT } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const SMALL: RdmaTransportOptions = { slotBytes: 256, sendSlots: 8, receiveSlots: 32 };
const SLOTS = 64;

await onSimulatedDevice('rxe', (device) => {
  function transport(own: RdmaTransportOptions = {}): RdmaTransport {
    const made = new RdmaTransport({ ...SHORT, ...SMALL, ...own, libraries: device.libraries });
    onTestFinished(() => made.close());
    return made;
  }

  describe.each<Personality>(TESTED_PERSONALITIES)(
    'shared receive slots of a device like %s',
    (personality) => {
      test('are not kept by messages of a handshake that was given up', async () => {
        resetForTest(device, personality);
        const handshakeTimeoutMs = 2000; // no machine is so busy that it runs out before all is held
        const server = transport({ handshakeTimeoutMs, sharedReceiveQueue: { slots: SLOTS } });
        const clients = transport();
        const listener = await server.listen('rdma://127.0.0.1:0');
        const accepted = nextConnection(listener);
        const stays = abortAfterTest(await clients.connect(listener.url)); // and keeps the slots alive
        abortAfterTest(await accepted);
        const posted = (): number => server.stats().sharedReceiveQueue?.postedSlots ?? 0;
        await until(() => posted() === SLOTS);

        device.hold('receive-completions');
        const late = abortAfterTest(await clients.connect(listener.url));
        const messages = [Buffer.alloc(1), Buffer.alloc(2), Buffer.alloc(1000)]; // the last one is a large one
        await Promise.all(messages.map((each) => late.send(each)));
        await until(() => device.held('receive-completions') === 1 + messages.length);
        // The loop is held up: the timer that gives up runs before anything can be polled.
        await turns();
        device.release('receive-completions');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, handshakeTimeoutMs + 50);
        await until(() => listener.stats().accepted + listener.stats().failed === 2);
        expect(listener.stats()).toEqual({ accepted: 1, failed: 1 });
        await until(() => posted() === SLOTS);
        expect(stays.state).toBe('open');
      });

      test('whose device refuses to take them again make room for new ones', async () => {
        resetForTest(device, personality);
        // The connections that end hold on to what they have for a while.
        device.set('destroy_blocks_us', 300_000);
        const server = transport({ sharedReceiveQueue: { slots: SLOTS } });
        const listener = await server.listen('rdma://127.0.0.1:0');
        const accepted = nextConnection(listener);
        const first = abortAfterTest(await transport().connect(listener.url));
        const broken = await accepted;
        broken.onMessage(() => {});
        device.failCall('ibv_post_srq_recv', errno.EIO);
        const ending = broken.ending;
        for (let n = 0; n < 4; n++) await first.send(Buffer.alloc(1));
        expect((await ending).error).toMatchObject({ code: 'ERR_VERBMQ_DEVICE' });

        const next = nextConnection(listener);
        const client = abortAfterTest(await transport().connect(listener.url));
        const connection = abortAfterTest(await next);
        connection.onMessage((message) => void connection.send(message.data));
        const answer = client.messages().next();
        await client.send(Buffer.from('there?'));
        expect(Buffer.from((await answer).value?.data ?? []).toString()).toBe('there?');
      });
    },
  );

  // Soft-iWARP has a queue of its own that is older.
  describe.each<Personality>(['rxe', 'mlx'])('a completion queue of a device like %s', (personality) => {
    test('that has failed does not take the slots of later connections with it', async () => {
      resetForTest(device, personality);
      device.set('destroy_blocks_us', 300_000);
      const server = transport({ sharedReceiveQueue: { slots: SLOTS } });
      const listener = await server.listen('rdma://127.0.0.1:0');
      const older = transport();
      const accepted = [nextConnection(listener)];
      await older.connect(listener.url);
      await accepted[0];
      accepted.push(nextConnection(listener));
      abortAfterTest(await transport().connect(listener.url));
      const broken = await accepted[1];
      // Of the queues that are left, that of the server is the oldest.
      await older.close();
      await until(() => server.stats().sharedReceiveQueue?.connections === 1);
      device.raiseAsyncEvent(AsyncEvent.completionQueueError);
      expect((await broken?.ending)?.error).toMatchObject({ code: 'ERR_VERBMQ_DEVICE' });

      abortAfterTest(await transport().connect(listener.url));
      await until(() => listener.stats().accepted + listener.stats().failed === 3);
      expect(listener.stats()).toEqual({ accepted: 3, failed: 0 });
    });
  });
});
