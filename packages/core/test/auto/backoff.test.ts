import { expect, test } from 'vitest';
import { Backoff } from '../../src/auto/backoff.js';

test('pauses are drawn evenly from nothing to a limit that doubles, the first one too', () => {
  const draws = [1, 1, 1, 1, 1, 1, 0, 0.5];
  const backoff = new Backoff(100, 1000, () => draws.shift() as number);
  expect(Array.from({ length: 8 }, () => backoff.next())).toEqual([100, 200, 400, 800, 1000, 1000, 0, 500]);
});

test('after a success the limit is the first one again, and it never overflows', () => {
  const backoff = new Backoff(100, 1000, () => 1);
  for (let n = 0; n < 2000; n++) expect(backoff.next()).toBeLessThanOrEqual(1000);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});
