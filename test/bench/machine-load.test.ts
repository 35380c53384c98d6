import { describe, expect, it } from 'vitest';
import { disturbanceBetween, parseMachineTimes } from '../../bench/run/machine-load.js';
import { parseCoreList } from '../../bench/run/placement.js';

describe('parseMachineTimes', () => {
  it('reads the line of all cores', () => {
    const text =
      'cpu  17151 9 6071 164711 641 5 117 478 300 0\ncpu0 8575 4 3035 82355 320 2 58 239 150 0\nintr 1\n';
    const { busy, stolen, total } = parseMachineTimes(text);
    expect(busy).toBeCloseTo(232.31); // time of guests (300) is part of user time already
    expect(stolen).toBeCloseTo(4.78);
    expect(total).toBeCloseTo(1891.83);
  });

  it('refuses what is not /proc/stat', () => {
    expect(() => parseMachineTimes('MemTotal: 1')).toThrow();
  });
});

describe('disturbanceBetween', () => {
  const before = { busy: 100, stolen: 5, total: 1000 };

  it('tells foreign processes from those that are measured', () => {
    const after = { busy: 101.5, stolen: 5.02, total: 1002 };
    const { stolen, foreign } = disturbanceBetween(before, after, 1.1);
    expect(stolen).toBeCloseTo(0.01);
    expect(foreign).toBeCloseTo(0.2);
  });

  it('finds no foreign processes where rounding leaves less than was measured', () => {
    expect(disturbanceBetween(before, { busy: 101, stolen: 5, total: 1002 }, 1.01).foreign).toBe(0);
  });

  it('finds nothing where the system does not tell', () => {
    expect(disturbanceBetween(undefined, undefined, 1)).toEqual({ stolen: 0, foreign: 0 });
  });
});

describe('parseCoreList', () => {
  it.each([
    ['0', [0]],
    ['0-1', [0, 1]],
    ['2,4-6,9', [2, 4, 5, 6, 9]],
  ])('reads %s', (text, cores) => {
    expect(parseCoreList(text)).toEqual(cores);
  });
});
