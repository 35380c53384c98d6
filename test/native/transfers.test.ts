// The memory of messages and leases, and what is exposed, is the device's too: a program that tries to give it away is refused, and nothing else
// is disturbed.
import { describe, test } from 'vitest';
import { expectKept } from '../support/kept-memory.js';
import { expectBytes, pattern } from '../support/messages.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('over a device like %s', (personality) => {
    test.each([
      ['own', {}],
      ['shared', { sharedReceiveQueue: { slots: 64 } }],
    ])('messages cannot be transferred where they lie (%s receive slots)', async (_, own) => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, own);
      const lengths = [10, 4000, 60_000, 10, 600_000, 10];
      let arrived = 0;
      pair.server.onMessage((message) => {
        const { data } = message;
        expectKept(data);
        expectBytes(data, pattern(lengths[arrived % lengths.length] as number, arrived));
        arrived++;
      });
      const count = 20 * lengths.length;
      for (let n = 0; n < count; n++)
        await pair.client.send(pattern(lengths[n % lengths.length] as number, n));
      await until(() => arrived === count);
      await expectNothingLeft(device, pair);
    });

    test.each([100, 60_000])('a lease of %i bytes cannot, and what is exposed', async (bytes) => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const lease = pair.client.allocate(bytes);
      expectKept(lease.data);
      lease.data.set(pattern(bytes));
      const arrived = pair.server.messages().next();
      await pair.client.send(lease);
      expectBytes((await arrived).value?.data as Uint8Array, pattern(bytes));
      for (const memory of [bytes, Object.freeze(new Uint8Array(bytes).buffer)] as const) {
        const whole = typeof memory === 'number' ? memory : new Uint8Array(memory);
        const { data } = await pair.server.expose(whole, { read: true });
        // A frozen buffer of the program's own takes no property.
        if (typeof memory === 'number') expectKept(data);
      }
      await expectNothingLeft(device, pair);
    });
  });
});
