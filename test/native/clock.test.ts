// The clock that polling looks at is the processor's counter, which may start anew under a process.
import { describe, expect, test } from 'vitest';
import { obstacle } from '../simulated-verbs/build.mjs';
import { engineProgram } from './engine-program.js';

const missing = await obstacle();

describe.skipIf(missing !== undefined)(`time by a counter${missing ? ` (skipped: ${missing})` : ''}`, () => {
  const startingAnew = engineProgram('clock/starting-anew.cc');

  test('goes on when the counter starts anew', async () => {
    expect(await startingAnew()).toBe('right\n');
  });
});
