import { describe, expect, it } from 'vitest';
import { Yardstick } from '../../bench/run/yardstick.js';

/** Reads these speeds one after the other, and then the last one for ever. */
function speeds(...list: number[]): () => number {
  return () => (list.length > 1 ? list.shift() : list[0]) ?? 0;
}

describe('Yardstick', () => {
  it('compares with the best that it has seen', () => {
    const yardstick = new Yardstick(speeds(80, 100, 90, 50, 120));
    const lacking = Array.from({ length: 5 }, () => yardstick.read());
    [0, 0, 0.1, 0.5, 0].forEach((share, at) => {
      expect(lacking[at]).toBeCloseTo(share);
    });
  });

  it('gets used to a machine that stays slower', () => {
    const yardstick = new Yardstick(speeds(100, 60));
    yardstick.read();
    const lacking = Array.from({ length: 40 }, () => yardstick.read());
    expect(lacking[0]).toBeCloseTo(0.4);
    expect(lacking.at(-1)).toBe(0);
  });

  it('waits for the speed of before', async () => {
    const looked: number[] = [];
    const next = speeds(100, 60, 60, 90);
    const yardstick = new Yardstick(() => {
      const speed = next();
      looked.push(speed);
      return speed;
    });
    yardstick.read();
    await yardstick.waitUntilLackingAtMost(0.25, 60_000);
    expect(looked).toEqual([100, 60, 60, 90]);
  });

  it('gives up waiting, and what it saw meanwhile changes nothing', async () => {
    const yardstick = new Yardstick(speeds(100, 60));
    yardstick.read();
    await yardstick.waitUntilLackingAtMost(0.25, 1);
    expect(yardstick.read()).toBeCloseTo(0.4);
  });

  it('reads this machine', () => {
    const lacking = new Yardstick().read();
    expect(lacking).toBe(0);
  });
});
