import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Backlog } from '../../dist/queue/backlog.js';
import type { Entry } from '../../dist/queue/work-queue.js';

const entry = (body: number): Entry => ({ body, headers: undefined, bytes: 1, attempts: 0 });

test('work comes out in its order, what is put back first', () => {
  const step = fc.constantFrom('push', 'push', 'unshift', 'shift');
  fc.assert(
    fc.property(fc.array(step, { maxLength: 1000 }), (steps) => {
      const backlog = new Backlog();
      const model: number[] = [];
      for (const [n, next] of steps.entries()) {
        if (next === 'shift') {
          expect(backlog.shift()?.body).toBe(model.shift());
        } else if (next === 'push') {
          backlog.push(entry(n));
          model.push(n);
        } else {
          backlog.unshift(entry(n));
          model.unshift(n);
        }
        expect(backlog.length).toBe(model.length);
      }
      while (model.length > 0) expect(backlog.shift()?.body).toBe(model.shift());
      expect(backlog.shift()).toBe(undefined);
    }),
  );
});
