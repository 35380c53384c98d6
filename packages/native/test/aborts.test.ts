// An abort leaves whatever else fills the queue: the peer is told why, and not only that the connection has ended.
import { describe, expect, test } from 'vitest';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../../../test/support/simulated-device.js';
import { until } from '../../../test/support/until.js';
import { EventKind, MemoryUse, SubmissionKind } from '../src/binding.js';
import { engineForTest, newSlab, RawEnd, RawListener, rawAttempt, rawPair } from './raw-ends.js';

/** Places in a send queue beside those of messages: `cpp/engine/memory_layout.h` and `operation_queue.h` hold the same numbers. */
const CONTROL_FRAMES = 16;
const OPERATIONS = 32;
/** Of a peer with receive slots of its own. */
const CONTROL_SLOTS = 8;
/** Longer than any test: who waits for this has failed. */
const NEVER_MS = 3_600_000;

function send({ engine, handle }: RawEnd, slot: number): void {
  engine.submitSend(handle, slot, 8);
}

async function expectAborted(end: RawEnd): Promise<void> {
  await end.saw(EventKind.closed);
  expect(end.failure).toMatchObject({ reason: 'peer-aborted', message: 'enough' });
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('an abort over a device like %s', (personality) => {
    test('has a place in a send queue that is full', async () => {
      resetForTest(device, personality);
      const sendSlots = 8;
      const { client, server } = await rawPair(device, { sendSlots });
      const { engine, handle } = client;
      const target = server.engine.registerMemory(
        server.handle,
        new ArrayBuffer(8),
        0,
        8,
        MemoryUse.remoteWrite,
      );
      const { region } = engine.registerMemory(handle, new ArrayBuffer(8), 0, 8, 0);
      // All of it arrives, and none of it is known to have left.
      device.hold('send-completions');
      // The first frame of the connection is the first of them.
      for (let n = 1; n < CONTROL_FRAMES; n++) {
        engine.submitPing(handle);
        await client.saw(EventKind.pong, n);
      }
      for (let slot = 0; slot < sendSlots; slot++) send(client, slot);
      await server.saw(EventKind.message, sendSlots);
      const before = device.calls('ibv_post_send');
      engine.submitPing(handle);
      for (let token = 0; token < OPERATIONS + 1; token++)
        engine.submitOperation(handle, {
          ...{ kind: SubmissionKind.write, token, region, offset: 0, bytes: 8 },
          ...{ remoteAddress: target.address, rkey: target.rkey },
        });
      engine.flush();
      expect(device.calls('ibv_post_send')).toBe(before + OPERATIONS);

      engine.native.abort(handle, 'enough', NEVER_MS, false);
      await expectAborted(server);
      device.release('send-completions');
      await client.saw(EventKind.closed);
      expect(device.count('cq-overruns')).toBe(0);
    });

    test('that finds no slot at the peer leaves with the message that brings one', async () => {
      resetForTest(device, personality);
      const { client, server } = await rawPair(device);
      // The peer has the client's first frame, and gives its slot back.
      send(server, 0);
      await client.saw(EventKind.message);

      device.hold('receive-completions');
      server.engine.submitPing(server.handle);
      server.engine.flush();
      // The last slot is for a frame that gives one back, so one is left.
      for (let slot = 0; slot < CONTROL_SLOTS - 1; slot++) {
        send(client, slot);
        client.engine.submitFence(client.handle);
        client.engine.flush();
      }
      await until(() => device.held('receive-completions') === 1 + 2 * (CONTROL_SLOTS - 1));
      // The server answers with a message, which brings all the slots back, and needs to say nothing more about them.
      let answered = false;
      server.messageArrived = () => {
        if (!answered) send(server, 1);
        answered = true;
      };
      device.release('receive-completions');
      device.hold('receive-completions');
      // That message, and the client's answer to the ping, for which it has taken the last slot.
      await until(() => device.held('receive-completions') === 2);

      client.engine.native.abort(client.handle, 'enough', NEVER_MS, false);
      device.release('receive-completions');
      await expectAborted(server);
    });

    test('may be the first that a peer says, which gives the connection up as soon as it has it', async () => {
      resetForTest(device, personality);
      const engine = engineForTest(device);
      const ends: RawEnd[] = [];
      const { port } = new RawListener(engine, (request) => {
        const end = new RawEnd(engine, newSlab(engine), request);
        ends.push(end);
        engine.native.accept(request, end.slab.memory);
      });
      const client = rawAttempt(device, port);
      const hear = client.eventArrived.bind(client);
      client.eventArrived = (kind, a, b) => {
        if (kind === EventKind.connected)
          client.engine.native.abort(client.handle, 'enough', NEVER_MS, false);
        hear(kind, a, b);
      };
      await client.saw(EventKind.closed);
      await expectAborted(ends[0]!);
      expect(await ends[0]!.saw(EventKind.accepted, 0)).toEqual([]);
    });
  });
});
