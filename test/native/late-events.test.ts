// Everything that a device and its connection manager report comes late, and each thing by another time: what is said on a
// connection, and how it ends, is the same.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { numbered, numberOf } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const LONGEST = 100_000;
/** Late is not lost: nobody gives up before the last of it has come. */
const PATIENT = { peerTimeoutMs: 30_000, closeTimeoutMs: 30_000, handshakeTimeoutMs: 30_000 };

await onSimulatedDevice('rxe', (device) => {
  const micros = (most: number) => fc.oneof(fc.constant(0), fc.integer({ min: 1, max: most }));
  const life = fc.record({
    delays: fc.record({
      cm_event_delay_us: micros(30_000),
      cm_packet_us: micros(5000),
      cq_event_delay_us: micros(5000),
      send_completion_delay_us: micros(3000),
      receive_completion_delay_us: micros(3000),
      completion_jitter_us: micros(1000),
      packet_us: micros(500),
      flush_delay_us: micros(20_000),
    }),
    seed: fc.integer({ min: 1, max: 1_000_000 }),
    polling: fc.constantFrom('event' as const, 'adaptive' as const),
    messages: fc.integer({ min: 0, max: 40 }),
    large: fc.integer({ min: 2, max: 12 }),
    ends: fc.constantFrom('client' as const, 'server' as const),
    how: fc.constantFrom('close' as const, 'abort' as const, 'close both' as const),
  });

  describe.each<Personality>(TESTED_PERSONALITIES)('late events of a device like %s', (personality) => {
    test('change nothing about what is said, and how it ends', async () => {
      resetForTest(device, personality);
      await fc.assert(
        fc.asyncProperty(life, async ({ delays, seed, polling, messages, large, ends, how }) => {
          device.reset(personality);
          device.set('jitter_seed', seed);
          for (const [setting, value] of Object.entries(delays)) device.set(setting, value);
          const setUp = simulatedSetUp(device, { ...PATIENT, polling });
          const pair = await connectPair(setUp);
          const sides = [pair.client, pair.server] as const;
          const received = sides.map((side) => {
            const numbers: number[] = [];
            side.onMessage(({ data }) => void numbers.push(numberOf(data)));
            return numbers;
          });
          const sending = sides.map(async (side) => {
            for (let n = 0; n < messages; n++)
              await side.send(numbered(n, n % large === 0 ? 4 + ((n * 7919) % LONGEST) : 4));
          });
          const all = Array.from({ length: messages }, (_, n) => n);
          const [one, other] = ends === 'client' ? sides : [pair.server, pair.client];
          if (how === 'abort') {
            await Promise.all(sending);
            await until(() => received.every(({ length }) => length === messages));
            one.abort('enough');
            expect((await one.closed).error?.code).toBe('ERR_VERBMQ_ABORTED');
            expect((await other.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
          } else {
            // What is still on its way is delivered first.
            await Promise.all(sending);
            const closing = how === 'close both' ? [one.close(), other.close()] : [one.close(), other.closed];
            for (const info of await Promise.all(closing)) expect(info).toMatchObject({ graceful: true });
          }
          for (const numbers of received) expect(numbers).toEqual(all);
          expect(device.count('rnr-answers')).toBe(0);
          await expectNothingLeft(device, pair);
        }),
        { numRuns: Number(process.env.VERBMQ_LATE_RUNS ?? 25) },
      );
    });

    test('do not keep two sides from connecting, talking and parting before any of them has come', async () => {
      resetForTest(device, personality);
      const pair = await connectPair(simulatedSetUp(device, PATIENT));
      device.hold('cm-events');
      let arrived = 0;
      pair.server.onMessage(() => arrived++);
      await pair.client.send(numbered(1));
      await until(() => arrived === 1);
      pair.client.abort('enough');
      // Its own frame says so.
      expect((await pair.server.ending).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
      device.release('cm-events');
      expect((await pair.client.closed).error?.code).toBe('ERR_VERBMQ_ABORTED');
      await expectNothingLeft(device, pair);
    });
  });
});
