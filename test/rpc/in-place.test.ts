import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { inPlace } from './in-place.js';

await onSimulatedDevice('rxe', (device) => inPlace(simulatedSetUp(device)));
