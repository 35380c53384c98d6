// Who waits for memory of large messages, and in which order they get it.
import { expect, test } from 'vitest';
import { turns } from '../../../test/support/expectations.js';
import { uncaughtException } from '../../../test/support/uncaught.js';
import { type MemoryWaiter, PoolMemory } from '../src/pool-memory.js';

const limits = { largeMemoryTotalBytes: 1000, idleMemoryBytes: 0 };
const refused = expect.objectContaining({ code: 'ERR_VERBMQ_NO_BUFFERS', reason: 'large-memory-total' });

/** An account of which all is in use, and those who wait for it, each of whom uses so much when it is woken. */
function full() {
  const memory = new PoolMemory(limits);
  memory.use('in', 1000, false);
  const woken: string[] = [];
  const waits = (name: string, wantedBytes: number, wake = () => memory.use('in', wantedBytes, false)) => {
    const waiter: MemoryWaiter = {
      wantedBytes: () => wantedBytes,
      wake: () => {
        woken.push(name);
        wake();
      },
    };
    memory.wait('in', waiter);
    return waiter;
  };
  return { memory, woken, waits };
}

test('of a thousand who wait, as many are woken as there is memory for', async () => {
  const { memory, woken, waits } = full();
  for (let n = 0; n < 1000; n++) waits(`${n}`, 100);
  await turns();
  expect(woken).toEqual([]);
  memory.unuse('in', 250);
  await turns();
  expect(woken).toEqual(['0', '1']);
  memory.unuse('in', 50);
  await turns();
  expect(woken).toEqual(['0', '1', '2']);
});

test('nobody passes those who wait, but in its turn, and then once', async () => {
  const { memory, woken, waits } = full();
  waits('twice', 100, () => {
    memory.use('in', 100, false);
    expect(() => memory.use('in', 100, false)).toThrow(refused);
  });
  waits('last', 900);
  memory.unuse('in', 1000);
  expect(() => memory.use('in', 1, false)).toThrow(refused);
  await turns();
  expect(woken).toEqual(['twice', 'last']);
  memory.unuse('in', 1000);
  memory.use('in', 1, false);
});

test('the first in line is waited for, also by those for whom there is enough', async () => {
  const { memory, woken, waits } = full();
  waits('much', 800);
  waits('little', 100);
  memory.unuse('in', 500);
  await turns();
  expect(woken).toEqual([]);
  memory.unuse('in', 300);
  await turns();
  expect(woken).toEqual(['much']);
  memory.unuse('in', 100);
  await turns();
  expect(woken).toEqual(['much', 'little']);
});

test('one that does not wait any more holds up nobody, whether it says so or not', async () => {
  const { memory, woken, waits } = full();
  const left = waits('left', 800);
  let wanted = 800;
  const silent = { wantedBytes: () => wanted, wake: () => void woken.push('silent') };
  memory.wait('in', silent);
  waits('little', 100);
  memory.unuse('in', 500);
  await turns();
  memory.leave('in', left);
  await turns();
  expect(woken).toEqual([]);
  wanted = 0;
  waits('new', 100);
  await turns();
  expect(woken).toEqual(['silent', 'little', 'new']);
  memory.leave('in', left);
});

test('one that fails when it is woken does not keep the others waiting', async () => {
  const { memory, woken, waits } = full();
  const uncaught = uncaughtException();
  waits('broken', 100, () => {
    throw new Error('broken');
  });
  waits('next', 100);
  memory.unuse('in', 200);
  await expect(uncaught).resolves.toMatchObject({ message: 'broken' });
  await turns();
  expect(woken).toEqual(['broken', 'next']);
});

test('what the application keeps lets the next one pass', async () => {
  const { memory, woken, waits } = full();
  waits('next', 700);
  expect(memory.hold('in', 1000)).toBe(true);
  await turns();
  expect(woken).toEqual(['next']);
  expect(memory.hold('in', 700)).toBe(false);
  memory.unhold('in', 1000);
  expect(memory.hold('in', 700)).toBe(true);
});
