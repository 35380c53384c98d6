import { describe } from 'vitest';
import { onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { addresses } from './addresses.js';

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(['rxe', 'siw'])('addresses of a device like %s', (personality) => {
    addresses({ v4: '127.0.0.1', v6: '::1', v6TakesV4: personality !== 'siw' }, () => {
      resetForTest(device, personality);
      return simulatedSetUp(device);
    });
  });
});
