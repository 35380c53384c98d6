import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TopicTree } from '../src/pubsub/topic-tree.js';

/** What a pattern means, word by word. */
function matches(pattern: string[], topic: string[]): boolean {
  const [first, ...rest] = pattern;
  if (first === undefined) return topic.length === 0;
  if (first === '#') return topic.some((_, i) => matches(rest, topic.slice(i))) || matches(rest, []);
  return topic.length > 0 && (first === '*' || first === topic[0]) && matches(rest, topic.slice(1));
}

describe('a tree of topics', () => {
  const cases: [string, string[], string[]][] = [
    ['a.b', ['a.b'], ['a', 'a.b.c', 'A.b', 'a.c']],
    ['a.*', ['a.b', 'a.c', 'a.'], ['a', 'a.b.c', 'b.b']],
    ['*.b', ['a.b', '.b'], ['b', 'a.a.b']],
    ['a.#', ['a', 'a.b', 'a.b.c'], ['b', 'b.a']],
    ['#', ['a', 'a.b', '.'], []],
    ['#.b', ['b', 'a.b', 'a.a.b', 'b.b'], ['a', 'b.a']],
    ['a.#.z', ['a.z', 'a.b.z', 'a.b.c.z'], ['a', 'z', 'a.z.b']],
    ['*.#', ['a', 'a.b'], []],
    ['#.*.#', ['a', 'a.b'], []],
    ['#.*.b.#', ['a.b', 'a.a.b.c'], ['b', 'a.a']],
    ['__proto__.*', ['__proto__.constructor'], ['a.b']],
  ];
  for (const [pattern, yes, no] of cases) {
    test(pattern, () => {
      const tree = new TopicTree<string>();
      tree.add(pattern, 'x');
      for (const topic of yes) expect([...tree.match(topic)], topic).toEqual(['x']);
      for (const topic of no) expect([...tree.match(topic)], topic).toEqual([]);
    });
  }

  test('finds what a look at each pattern finds, also after some were removed', () => {
    const word = fc.constantFrom('a', 'b', '', '*', '#');
    const pattern = fc.array(word, { minLength: 1, maxLength: 5 });
    const topic = fc.array(fc.constantFrom('a', 'b', ''), { minLength: 1, maxLength: 6 });
    const nonEmpty = (words: string[]): boolean => words.join('.') !== '';
    fc.assert(
      fc.property(
        fc.array(pattern.filter(nonEmpty), { maxLength: 12 }),
        fc.array(fc.boolean()),
        topic.filter(nonEmpty),
        (patterns, removed, words) => {
          const tree = new TopicTree<number>();
          for (const [i, each] of patterns.entries()) tree.add(each.join('.'), i);
          for (const [i, each] of patterns.entries()) if (removed[i]) tree.delete(each.join('.'), i);
          const expected = patterns.flatMap((each, i) => (!removed[i] && matches(each, words) ? [i] : []));
          expect([...tree.match(words.join('.'))].sort((x, y) => x - y)).toEqual(expected);
          for (const [i, each] of patterns.entries()) tree.delete(each.join('.'), i);
          expect(tree.size).toBe(0);
          expect([...tree.match(words.join('.'))]).toEqual([]);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test.each([10, 1000, 100_000])('finds its way among %i patterns in as many steps', (count) => {
    const tree = new TopicTree<string>();
    for (const pattern of ['a.b.c', 'a.*.c', '*.b.#', '#.c', '#']) tree.add(pattern, pattern);
    const shapes = [
      (n: number) => `x${n}.b.c`,
      (n: number) => `a.x${n}.c`,
      (n: number) => `a.b.x${n}`,
      (n: number) => `*.x${n}`,
      (n: number) => `#.x${n}`,
      (n: number) => `a.b.c.x${n}.#`,
      (n: number) => `a.*.#.x${n}.*`,
    ];
    for (let n = 0; n < count; n++) tree.add(shapes[n % shapes.length]!(n), `other ${n}`);
    expect(tree.size).toBe(count + 5);
    expect(tree.match('a.b.c').size).toBe(5);
    // Measured with 10 patterns; a look at each would take 100,000.
    expect(tree.visits).toBeLessThanOrEqual(40);
  });

  test('patterns that could be matched in countless ways take no time', () => {
    const tree = new TopicTree<number>();
    for (let i = 0; i < 32; i++) tree.add([...new Array<string>(i).fill('#'), 'z'].join('.'), i);
    tree.add(new Array<string>(16).fill('#.a').join('.'), 99);
    const topic = new Array<string>(32).fill('a').join('.');
    for (let i = 0; i < 1000; i++) expect(tree.match(topic).size).toBe(1);
  });

  test('however many patterns of wildcards there are, they take no longer', () => {
    const tree = new TopicTree<number>();
    const WORDS = 12;
    for (let n = 0; n < 2 ** WORDS; n++) {
      const words = Array.from({ length: WORDS }, (_, i) => ((n >> i) & 1 ? '#' : '*'));
      tree.add(['a', ...words, 'z'].join('.'), n);
    }
    expect(tree.match('a.b.c.d.e').size).toBe(0);
    expect(tree.visits).toBeLessThanOrEqual(100); // and not the thousands of places that they had as they are written
    expect(tree.match('a.b.z').size).toBe(WORDS + 1);
    for (let n = 0; n < 2 ** WORDS; n++) {
      const words = Array.from({ length: WORDS }, (_, i) => ((n >> i) & 1 ? '#' : '*'));
      tree.delete(['a', ...words, 'z'].join('.'), n);
    }
    expect(tree.size).toBe(0);
  });

  test('what is no topic is a mistake', () => {
    const tree = new TopicTree<number>();
    for (const bad of ['', 'x'.repeat(256), '.'.repeat(40), 5 as never]) {
      expect(() => tree.add(bad, 1)).toThrow(TypeError);
      expect(() => tree.match(bad)).toThrow(TypeError);
    }
    expect(() => tree.match('a.*')).toThrow(TypeError);
  });
});
