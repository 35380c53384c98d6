import { describe, expect, it } from 'vitest';
import { best, median, quantile, spread } from '../../bench/statistics.js';

describe('statistics', () => {
  it('takes the middle value, or the mean of the two middle ones', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([9, 1, 5, 3])).toBe(4);
    expect(median([7])).toBe(7);
  });

  it('has no median of nothing', () => {
    expect(median([])).toBeNaN();
    expect(best([], 'lower')).toBeNaN();
  });

  it('sorts by value and leaves its argument alone', () => {
    const values = [10, 9, 100];
    expect(median(values)).toBe(10);
    expect(values).toEqual([10, 9, 100]);
  });

  it('interpolates quantiles between neighbours', () => {
    expect(quantile([0, 10, 20, 30, 40], 0.25)).toBe(10);
    expect(quantile([0, 10], 0.25)).toBe(2.5);
  });

  it('takes the best in the direction that is better', () => {
    expect(best([3, 1, 2], 'lower')).toBe(1);
    expect(best([3, 1, 2], 'higher')).toBe(3);
  });

  it('gives the spread of the middle half as a share of the median', () => {
    expect(spread([90, 95, 100, 105, 110])).toBeCloseTo(0.1);
    expect(spread([5, 5, 5])).toBe(0);
  });
});
