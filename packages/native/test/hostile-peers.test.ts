// Peers that do not keep to the protocol: each ends its own connection, with an error that says what it did, and no other.
import type { Connection, ConnectionOptions, Listener } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { numbered, numberOf, take } from '../../../test/support/messages.js';
import { abortAfterTest, nextConnection, transportForTest } from '../../../test/support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  type SimulatedDevice,
  TESTED_PERSONALITIES,
} from '../../../test/support/simulated-device.js';
import { simulatedSetUp } from '../../../test/support/simulated-pair.js';
import { until } from '../../../test/support/until.js';
import { EventKind, MemoryUse, SubmissionKind } from '../src/binding.js';
import type { RdmaTransportOptions } from '../src/options.js';
import { type RawEnd, rawClient, rawPair } from './raw-ends.js';

const HEADER_BYTES = 16;

interface Victim {
  readonly peer: RawEnd;
  readonly server: Connection;
  readonly listener: Listener;
}

async function victimOf(
  device: SimulatedDevice,
  options: RdmaTransportOptions = {},
  listenOptions: ConnectionOptions = {},
): Promise<Victim> {
  // Frames lie in the peer's slab until the device takes them, where a test can still change them.
  device.set('max_inline_bytes', 0);
  const setUp = simulatedSetUp(device, options);
  const listener = await transportForTest(setUp, { maxMessageBytes: 1_000_000 }).listen(
    setUp.listenAddress(),
    listenOptions,
  );
  const accepted = nextConnection(listener);
  const peer = await rawClient(device, (listener.address as { port: number }).port);
  return { peer, server: abortAfterTest(await accepted), listener };
}

/** Sends a frame of `bytes` bytes from the peer's slot 0, with what `change` makes of it. */
async function sendChanged(
  device: SimulatedDevice,
  { peer }: Victim,
  submit: () => void,
  change: (frame: DataView) => void,
): Promise<void> {
  device.hold('hardware');
  submit();
  peer.engine.flush();
  const { slab } = peer;
  change(new DataView(slab.slab, slab.sendBase - HEADER_BYTES, slab.slotBytes));
  device.release('hardware');
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a hostile peer over a device like %s', (personality) => {
    /** The victim's connection has ended for that reason; its listener goes on. */
    async function expectEnd({ server, listener, peer }: Victim, what: RegExp): Promise<void> {
      const { error } = await server.closed;
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_PROTOCOL' });
      expect(error?.message).toMatch(what);
      await peer.saw(EventKind.closed);
      const accepted = nextConnection(listener);
      const client = abortAfterTest(await transportForTest(simulatedSetUp(device)).connect(listener.url));
      await client.send(numbered(5));
      expect((await take(abortAfterTest(await accepted), 1)).map(numberOf)).toEqual([5]);
    }

    const CHANGES: Record<string, [change: (frame: DataView) => void, what: RegExp]> = {
      'type 0': [(frame) => frame.setUint8(0, 0), /unknown type/],
      'an unknown type': [(frame) => frame.setUint8(0, 12), /unknown type/],
      'an answer that nobody asked for': [(frame) => frame.setUint8(0, 10), /nobody asked for/],
      'a note that is no note': [
        (frame) => frame.setUint8(0, 9),
        /note about exposed memory has the wrong length/,
      ],
      'another length than it says': [(frame) => frame.setUint32(4, 11, true), /wrong length/],
      'a number that is not its turn': [(frame) => frame.setUint32(8, 7, true), /out of sequence/],
      'data slots that nobody used': [(frame) => frame.setUint16(2, 1, true), /more credits/],
      'control slots that nobody used': [(frame) => frame.setUint8(1, 1), /more credits/],
      'a large message read that nobody sent': [(frame) => frame.setUint16(12, 1, true), /not told of/],
      'a large message released that nobody sent': [(frame) => frame.setUint16(14, 1, true), /not told of/],
      'a second first frame': [(frame) => frame.setUint8(0, 2), /at the wrong time/],
      'an advertisement of the wrong length': [
        (frame) => frame.setUint8(0, 8),
        /advertisement of the wrong length/,
      ],
    };
    test.each(Object.entries(CHANGES))('that sends a frame with %s', async (_, [change, what]) => {
      resetForTest(device, personality);
      const victim = await victimOf(device);
      await sendChanged(
        device,
        victim,
        () => victim.peer.engine.submitSend(victim.peer.handle, 0, 10),
        change,
      );
      await expectEnd(victim, what);
    });

    test('that says something before it has the last answer', async () => {
      resetForTest(device, personality);
      const victim = await victimOf(device);
      const { native } = victim.peer.engine;
      // The second frame, which is an ordinary one, becomes a note as well.
      device.hold('hardware');
      native.sendNote(victim.peer.handle, new Uint8Array(32).fill(1, 0, 1));
      await sendChanged(
        device,
        victim,
        () => victim.peer.engine.submitSend(victim.peer.handle, 0, 32),
        (frame) => frame.setUint8(0, 9),
      );
      await expectEnd(victim, /note before the last one was answered/);
    });

    test('that says more in one frame than can be answered in one', async () => {
      resetForTest(device, personality);
      const victim = await victimOf(device);
      await sendChanged(
        device,
        victim,
        () => victim.peer.engine.submitSend(victim.peer.handle, 0, 65 * 32),
        (frame) => {
          frame.setUint8(0, 9);
          for (let n = 0; n < 65; n++) frame.setUint32(HEADER_BYTES + n * 32, 1, true);
        },
      );
      await expectEnd(victim, /a note about exposed memory of 2080 bytes/);
    });

    test('that sends a frame which is longer than a slot', async () => {
      resetForTest(device, personality);
      const victim = await victimOf(device, { slotBytes: 256 });
      victim.peer.engine.submitSend(victim.peer.handle, 0, 1000);
      await expectEnd(victim, /longer than a slot/);
    });

    const whyNot = personality === 'siw' ? ' (skipped: software iWARP has no immediates)' : '';
    const takingReceives = `that takes a receive without sending anything into it${whyNot}`;
    test.skipIf(whyNot !== '')(takingReceives, async () => {
      resetForTest(device, personality);
      device.set('writes_carry_immediates', 1);
      const { client, server } = await rawPair(device);
      // In slots that are shared lies what another peer has sent: here, what would be the next frame of this one.
      const { receives, slotBytes, dataSlots } = server.slab;
      const payloadBytes = 32;
      for (let slot = 0; slot < dataSlots; slot++) {
        const frame = new DataView(receives.buffer, receives.startOf(slot) - HEADER_BYTES, slotBytes);
        frame.setUint8(0, 1);
        frame.setUint32(4, payloadBytes, true);
        frame.setUint32(8, 1, true);
      }
      const bytes = HEADER_BYTES + payloadBytes;
      const exposed = server.engine.registerMemory(
        server.handle,
        new ArrayBuffer(bytes),
        0,
        bytes,
        MemoryUse.remoteWrite,
      );
      const own = client.engine.registerMemory(client.handle, new ArrayBuffer(bytes), 0, bytes, 0);
      client.engine.submitOperation(client.handle, {
        kind: SubmissionKind.write,
        token: 1,
        region: own.region,
        offset: 0,
        bytes,
        remoteAddress: exposed.address,
        rkey: exposed.rkey,
      });
      await server.saw(EventKind.closed);
      expect(server.failure).toMatchObject({ reason: 'protocol' });
      expect(server.failure?.message).toContain('immediate data');
      expect(server.events.filter(([kind]) => kind === EventKind.message)).toEqual([]);
    });

    test.each([
      ['of an unknown kind', [9, 0], 'ERR_VERBMQ_PROTOCOL'],
      ['about memory that is not exposed', [2, 4711], 'ERR_VERBMQ_REMOTE_ACCESS'],
    ] as const)('that sends a note %s', async (_, [kind, number], code) => {
      resetForTest(device, personality);
      const victim = await victimOf(device);
      const note = Buffer.alloc(32);
      note.writeUInt32LE(kind, 0);
      note.writeUInt32LE(number, 4);
      expect(victim.peer.engine.native.sendNote(victim.peer.handle, note)).toBe(true);
      expect((await victim.server.closed).error).toMatchObject({ code });
      await victim.peer.saw(EventKind.closed);
    });

    /** Tells the victim of memory of the peer's: all of it, which is `bytes` long. */
    function advertise({ peer }: Victim, bytes: number, slot = 0): void {
      const { region } = peer.engine.registerMemory(
        peer.handle,
        new ArrayBuffer(bytes),
        0,
        bytes,
        MemoryUse.remoteRead,
      );
      peer.engine.submitAdvertise(peer.handle, slot, region, 0, bytes);
    }

    test.each([0, 1_000_001, 0xffff_ffff])('that tells of a message of %i bytes', async (bytes) => {
      resetForTest(device, personality);
      const victim = await victimOf(device);
      await sendChanged(
        device,
        victim,
        () => advertise(victim, 10_000),
        (frame) => frame.setUint32(HEADER_BYTES + 12, bytes, true),
      );
      await expectEnd(victim, new RegExp(`a message of ${bytes} bytes`));
    });

    test('that tells of a long message before it was greeted claims no memory', async () => {
      resetForTest(device, personality);
      const victim = await victimOf(device, {}, { maxGreetingBytes: 16_384 });
      advertise(victim, 16_384, 0);
      expect((await take(victim.server, 1))[0]!.byteLength).toBe(16_384);
      const reads = device.count('reads');
      advertise(victim, 16_385, 1);
      await expectEnd(victim, /16385 bytes where 16384 are accepted/);
      expect(device.count('reads')).toBe(reads);
      const greeted = await victimOf(device, {}, { maxGreetingBytes: 16_384 });
      greeted.server.greeted();
      advertise(greeted, 100_000);
      expect((await take(greeted.server, 1))[0]!.byteLength).toBe(100_000);
    });

    test('that tells of more than the window has room for', async () => {
      resetForTest(device, personality);
      const victim = await victimOf(device, { receiveWindowBytes: 100_000 });
      advertise(victim, 60_000, 0);
      advertise(victim, 60_000, 1);
      await expectEnd(victim, /more than there is room for/);
    });

    test('that tells of a message, and lets nothing be read', async () => {
      resetForTest(device, personality);
      device.set('max_rd_atomic', 0);
      const victim = await victimOf(device);
      advertise(victim, 10_000);
      await expectEnd(victim, /where nothing can be read/);
    });

    test('that tells of short messages as if they were large fills slots, and nothing else', async () => {
      resetForTest(device, personality);
      const victim = await victimOf(device, { receiveSlots: 4 });
      for (let slot = 0; slot < 10; slot++) advertise(victim, 10, slot);
      await until(() => victim.server.stats().messagesQueued === 4);
      expect((await take(victim.server, 10)).map(({ byteLength }) => byteLength)).toEqual(Array(10).fill(10));
    });

    const LIES: Record<string, (frame: DataView) => void> = {
      'with a key that opens nothing': (frame) => frame.setUint32(HEADER_BYTES + 8, 0xdead_beef, true),
      'in memory that is not its own': (frame) => frame.setBigUint64(HEADER_BYTES, 4096n, true),
      'that is longer than its memory': (frame) => frame.setUint32(HEADER_BYTES + 12, 20_000, true),
    };
    test.each(Object.entries(LIES))('that tells of a message %s', async (_, lie) => {
      resetForTest(device, personality);
      const victim = await victimOf(device);
      await sendChanged(device, victim, () => advertise(victim, 10_000), lie);
      const { error } = await victim.server.closed;
      // As with a peer whose process is being ended, which takes its memory back first.
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST' });
      expect(victim.server.stats().messagesReceived).toBe(0);
    });
  });
});
