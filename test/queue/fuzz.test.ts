import { describe } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { memorySetUp } from '../support/transports/memory.js';
import { queueFuzz } from './fuzz.js';

describe('anything at all', () => queueFuzz(memorySetUp(), 1 / 3));

await onSimulatedDevice('rxe', (device) => {
  describe('anything at all, read where the device has put it', () =>
    queueFuzz(simulatedSetUp(device), 1 / 6));
});
