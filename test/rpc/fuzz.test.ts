import { describe } from 'vitest';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { memorySetUp } from '../support/transports/memory.js';
import { rpcFuzz } from './fuzz.js';

describe('anything at all', () => rpcFuzz(memorySetUp()));

await onSimulatedDevice('rxe', (device) => {
  describe('anything at all, read where the device has put it', () => rpcFuzz(simulatedSetUp(device), 1 / 2));
});
