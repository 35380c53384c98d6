import { inFull } from '../../scripts/test/scope.mjs';
import { autoOverMemorySetUp, autoThatMovesLateSetUp, type FastSides } from '../support/transports/auto.js';
import { conformance } from './index.js';

// Auto with one fast side, and with none, passes the suite upon TCP and upon TLS, where it differs in nothing.
const ELSEWHERE_TOO: FastSides[] = inFull ? ['client', 'server', 'none'] : [];

for (const sides of ['both', ...ELSEWHERE_TOO] satisfies FastSides[])
  conformance(`auto (fast path: ${sides})`, autoOverMemorySetUp(sides));

conformance('auto that moves late', autoThatMovesLateSetUp());
