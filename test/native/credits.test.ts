// Credits cannot be lost, and two sides cannot wait for each other's: all states there are, of the engine's own code.
import { describe, expect, test } from 'vitest';
import { obstacle } from '../simulated-verbs/build.mjs';
import { engineProgram } from './engine-program.js';

const missing = await obstacle();

describe.skipIf(missing !== undefined)(
  `control credits of two sides${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    const twoSides = engineProgram('credits/two-sides.cc');

    // With slots of its own a side has eight, with shared ones four.
    test.each([
      [8, 8, 0],
      [4, 8, 0],
      [4, 8, 1],
      [4, 4, 2],
    ])('never run out for good (%i and %i slots, %i messages)', async (one, other, messages) => {
      expect(await twoSides(one, other, messages)).toMatch(/^\d+ states\n$/);
    });
  },
);
