// Traffic of every kind at once over a device that is never punctual: what no single fault shows.
import { describe, expect, test } from 'vitest';
import {
  ALL_PERSONALITIES,
  onSimulatedDevice,
  type Personality,
  resetForTest,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { expectEnds } from './soak/expectations.js';
import { Script } from './soak/script.mjs';
import { soakOf } from './soak/settings.js';
import { PATIENT, SoakServer, soakAsClient, Tally } from './soak/sides.mjs';

/** Long enough for several pieces of a read, and short enough for many messages in a second. */
const LONGEST = 1024 * 1024;
const soak = soakOf(2500, LONGEST);

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(ALL_PERSONALITIES)(
    `a soak on a device like %s (seed ${soak.script.seed})`,
    (personality) => {
      test.each(['event', 'adaptive', 'busy'] as const)(
        'polling: %s: every byte right, every order right, nothing left',
        { timeout: soak.timeout },
        async (polling) => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device, {
            polling,
            ...PATIENT,
            // Leases that must wait for each other, and retained messages beyond what may stay registered.
            largeMemoryBytes: 2 * LONGEST,
          });
          device.set('jitter_seed', soak.script.seed);
          device.set('completion_jitter_us', 400);
          device.set('cq_event_delay_us', 100);
          device.set('missing_send_slots', 60);
          const script = new Script(soak.script);
          const server = new SoakServer(pair.listener, script);
          const tally = new Tally();
          const what = { messages: soak.messages, first: 0, tally };
          const next = await server.unlessBroken(
            soakAsClient(pair.clientTransport, pair.listener.url, script, what),
          );
          await server.unlessBroken(server.allEnded());
          expectEnds(script, next, tally, server.tally);
          expect(device.count('rnr-answers')).toBe(0);
          expect(device.count('cq-overruns')).toBe(0);
          await expectNothingLeft(device, pair);
        },
      );
    },
  );
});
