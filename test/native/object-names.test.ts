// What a device reports of a queue may be read when the queue is gone: by another thread, which has the same device open.
import { describe, expect, test } from 'vitest';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test('knows no two queues by the same name, also when one has taken the place of the other', async () => {
      resetForTest(device, personality);
      for (let n = 0; n < 10; n++)
        await expectNothingLeft(device, await simulatedPair(device, { sharedReceiveQueue: { slots: 64 } }));
      expect(device.count('contexts-reused')).toBe(0);
    });
  });
});
