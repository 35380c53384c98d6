import { autoOverMemorySetUp, autoThatMovesLateSetUp, type FastSides } from '../support/transports/auto.js';
import { conformance } from './index.js';

for (const sides of ['both', 'client', 'server', 'none'] satisfies FastSides[])
  conformance(`auto (fast path: ${sides})`, autoOverMemorySetUp(sides));

conformance('auto that moves late', autoThatMovesLateSetUp());
