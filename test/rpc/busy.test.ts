import { expect, test } from 'vitest';
import { memorySetUp } from '../support/transports/memory.js';
import { served } from './support.js';

test('an answer that was there in time is none that came too late because its caller was busy', async () => {
  const timeoutMs = 50;
  const { api } = await served(memorySetUp(), {
    busy: () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * timeoutMs); // the caller is in this process
      return 'answered';
    },
  });
  expect(await api.busy(undefined, { timeoutMs })).toBe('answered');
});
