import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CallTable } from '../../src/rpc/call-table.js';

interface Call {
  readonly id: number;
}

const call = (id: number): Call => ({ id });

test('holds what a map holds, whatever comes and goes', () => {
  const operations = fc.array(
    fc.tuple(fc.constantFrom('add', 'delete', 'delete another'), fc.integer({ min: 1, max: 40 })),
    { maxLength: 300 },
  );
  fc.assert(
    fc.property(operations, fc.constantFrom(1, 16, 64, 2 ** 40), (list, stride) => {
      const table = new CallTable<Call>();
      const map = new Map<number, Call>();
      let lastId = 0;
      for (const [operation, number] of list) {
        if (operation === 'add') {
          lastId += number * stride;
          const added = call(lastId);
          table.add(added);
          map.set(lastId, added);
          continue;
        }
        const present = [...map.keys()];
        const id = operation === 'delete' ? (present[number % present.length] ?? 0) : number;
        expect(table.delete(id)).toBe(map.delete(id));
      }
      expect(table.size).toBe(map.size);
      expect(table.values()).toEqual([...map.values()]);
      for (const id of [...map.keys(), 1, 17, lastId + 16]) expect(table.get(id)).toBe(map.get(id));
    }),
  );
});

test('numbers of a peer that all want one slot cost no more memory than calls', () => {
  const table = new CallTable<Call>();
  for (let i = 1; i <= 1000; i++) table.add(call(i * 2 ** 20));
  expect(table.size).toBe(1000);
  expect(table.get(7 * 2 ** 20)?.id).toBe(7 * 2 ** 20);
  expect(table.get(7)).toBe(undefined);
  expect(table.values().map(({ id }) => id / 2 ** 20)).toEqual(Array.from({ length: 1000 }, (_, i) => i + 1));
});
