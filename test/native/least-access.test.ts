import { describe, expect, test } from 'vitest';
import { numbered, numberOf, take } from '../support/messages.js';
import {
  type Access,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const KIB = 1024;

await onSimulatedDevice('rxe', (device) => {
  const accesses = (): Record<Access, number> => ({
    deviceWrites: device.regions('deviceWrites'),
    peerReads: device.regions('peerReads'),
    peerWrites: device.regions('peerWrites'),
    peerAdds: device.regions('peerAdds'),
  });

  describe.each<Personality>(TESTED_PERSONALITIES)(
    'memory is registered over a device like %s',
    (personality) => {
      test('for messages in slots: for nobody but the own device, which writes what it receives', async () => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const received = take(pair.server, 1);
        await pair.client.send(numbered(1));
        expect(numberOf((await received)[0]!)).toBe(1);
        // Of each side the receive slots, and beside them the send slots, to which nobody writes but the program.
        expect(accesses()).toEqual({ deviceWrites: 2, peerReads: 0, peerWrites: 0, peerAdds: 0 });
        expect(device.live('mr')).toBe(4);
        await expectNothingLeft(device, pair);
      });

      test.each([
        ['leased', 500 * KIB],
        ['copied', 60 * KIB],
        ['lent', 600 * KIB],
      ])(
        'for a large message that is %s: for the peer to read on the one side, to write to at most where iWARP must',
        async (way, length) => {
          resetForTest(device, personality);
          const pair = await simulatedPair(device);
          device.hold('hardware');
          const received = take(pair.server, 1);
          const lease = way === 'leased' ? pair.client.allocate(length) : undefined;
          lease?.data.set(numbered(1));
          const sent = pair.client.send(lease ?? numbered(1, length));
          expect(accesses()).toEqual({ deviceWrites: 2, peerReads: 1, peerWrites: 0, peerAdds: 0 });
          device.hold('send-completions');
          device.release('hardware');
          await until(() => device.count('reads') > 0);
          // Where it is read to. With iWARP the answer to a read is a tagged write, for which its target has to be open (RFC 5040).
          const peerWrites = personality === 'siw' ? 1 : 0;
          expect(accesses()).toEqual({ deviceWrites: 3, peerReads: 1, peerWrites, peerAdds: 0 });
          device.release('send-completions');
          await Promise.all([sent, received]);
          await expectNothingLeft(device, pair);
        },
      );

      test.each<['read' | 'write' | 'atomic', Partial<Record<Access, number>>]>([
        ['read', { peerReads: 1 }],
        ['write', { peerWrites: 1, deviceWrites: 3 }],
        ['atomic', { peerAdds: 1, deviceWrites: 3 }],
      ])('for what is exposed: for nothing but %s', async (access, grants) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        const none = accesses();
        const exposed = await pair.server.expose(4096, { [access]: true });
        const native = access !== 'atomic' || pair.server.capabilities.atomics === 'native';
        expect(accesses()).toEqual({ ...none, ...(native && grants) });
        await exposed.revoke();
        expect(accesses()).toEqual(none);
        await expectNothingLeft(device, pair);
      });
    },
  );
});
