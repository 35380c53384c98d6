import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { originOf, SuspendedSessions } from '../../src/auto/suspended-sessions.js';

interface Waiting {
  readonly from: string;
  readonly used: boolean;
}

describe('sessions that wait to be resumed', () => {
  test('give way when there are too many: unused ones, of a crowd, that wait longest', () => {
    const event = fc.oneof(
      { weight: 4, arbitrary: fc.record({ from: fc.constantFrom('a', 'b', 'c', 'd'), used: fc.boolean() }) },
      { weight: 1, arbitrary: fc.nat() },
    );
    fc.assert(
      fc.property(fc.nat(8), fc.array(event, { minLength: 20, maxLength: 60 }), (limit, changes) => {
        const sessions = new SuspendedSessions<Waiting>(limit);
        let waiting: Waiting[] = [];
        for (const change of changes) {
          if (typeof change === 'number') {
            const gone = waiting[change % (waiting.length + 1)]; // or one that is not there
            sessions.delete(gone ?? { from: 'a', used: true });
            waiting = waiting.filter((each) => each !== gone);
          } else {
            waiting.push(change);
            const first = sessions.add(change, change.from, change.used);
            expect(first !== undefined).toBe(waiting.length > limit);
            if (first !== undefined) {
              const unused = waiting.filter(({ used }) => !used);
              const candidates = unused.length > 0 ? unused : waiting;
              const of = (from: string): Waiting[] => candidates.filter((each) => each.from === from);
              expect(first).toBe(of(first.from)[0]);
              for (const { from } of candidates)
                expect(of(from).length).toBeLessThanOrEqual(of(first.from).length);
              waiting = waiting.filter((each) => each !== first);
            }
          }
          expect([...sessions]).toEqual(waiting);
        }
      }),
    );
  });

  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['2001:db8:1:2::9', '2001:db8:1:2'],
    ['2001::1:2:3:4:5:6', '2001:0:1:2'],
    ['::1', '0:0:0:0'],
    ['::', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
  ])('come from %s, which is in %s', (host, origin) => {
    expect(originOf({ host, port: 1 })).toBe(origin);
  });
});
