import { expect } from 'vitest';
import { startExample, startService } from './example.js';

/** Runs the table, and answers with how often it was read while its owner was blocked. */
export async function tableExample(listenUrl: string): Promise<number> {
  const { service, url } = await startService('table/owner', listenUrl);
  const reader = startExample('table/reader', url);
  const lines = await reader.rest();
  expect(lines).toEqual([
    'tea costs 3.20, coffee 4.50',
    'milk costs nothing, there is none',
    expect.stringMatching(/^\w+: \d+ reads while the owner was out$/),
    'tea costs 3.40',
  ]);
  expect(await reader.exit).toEqual([0, null]);
  service.terminate();
  expect(await service.exit).toEqual([0, null]);
  return Number(/\d+/.exec(lines[2]!)?.[0]);
}

/** Runs the counter with three workers at once: every number is given once, and none is left out. */
export async function counterExample(listenUrl: string): Promise<void> {
  const { service, url } = await startService('counter/owner', listenUrl);
  const workers = [100, 50, 30].map((count) => startExample('counter/worker', url, [String(count)]));
  const numbers: number[] = [];
  for (const worker of workers) {
    numbers.push(...(await worker.line()).split(' ').map(Number));
    expect(await worker.exit).toEqual([0, null]);
  }
  expect(numbers.sort((one, other) => one - other)).toEqual(Array.from({ length: 180 }, (_, n) => n));
  service.terminate();
  expect(await service.rest()).toEqual(['counted to 180']);
  expect(await service.exit).toEqual([0, null]);
}
