import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Line } from '../src/contract/line.js';

test('who comes first is served first, whoever leaves in between', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constantFrom('add' as const, 'delete' as const), n: fc.nat(20) }),
    fc.record({ kind: fc.constantFrom('shift' as const, 'peek' as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 500 }), (steps) => {
      const line = new Line<number>();
      let model: number[] = [];
      for (const next of steps) {
        if (next.kind === 'add') {
          line.add(next.n);
          if (!model.includes(next.n)) model.push(next.n);
        } else if (next.kind === 'delete') {
          expect(line.delete(next.n)).toBe(model.includes(next.n));
          model = model.filter((n) => n !== next.n);
        } else if (next.kind === 'peek') {
          expect(line.peek()).toBe(model[0]);
        } else {
          expect(line.shift()).toBe(model.shift());
        }
        expect(line.length).toBe(model.length);
      }
    }),
  );
});

test('a long line is served in time proportional to its length', () => {
  const line = new Line<number>();
  const count = 200_000;
  for (let n = 0; n < count; n++) line.add(n);
  for (let n = 0; n < count; n++) {
    expect(line.shift()).toBe(n);
    if (n % 2 === 0) line.add(count + n);
  }
  expect(line.length).toBe(count / 2);
});
