import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PubsubBroker } from '../dist/pubsub/broker.js';
import {
  EVENT_BYTES,
  Event,
  type Item,
  PLACE_BYTES,
  Subscriber,
  Tally,
  type WhenSlow,
} from '../dist/pubsub/subscriber.js';

const PLENTY = 2 ** 30;

function subscriber(
  whenSlow: WhenSlow,
  { maxQueued = 1000, maxQueuedBytes = PLENTY, maxHeldBytes = PLENTY } = {},
) {
  const tally = new Tally(maxHeldBytes);
  return { tally, slow: new Subscriber('msgpack', { maxQueued, maxQueuedBytes, whenSlow }, tally) };
}

/** An event of the number `n`, and of so many bytes. */
const event = (n: number, bytes = 1): Event => new Event(new Uint8Array(bytes).fill(n));

/** What events of so many bytes take in all that wait for so many subscribers. */
const held = (events: number, bytes: number, places = events): number =>
  events * (bytes + EVENT_BYTES) + places * PLACE_BYTES;

/** What a reader gets now: the numbers of events, and `-n` for `n` that were left out. */
async function readAll(slow: Subscriber): Promise<number[]> {
  const seen: number[] = [];
  for (;;) {
    const next: Item | undefined = await Promise.race([
      slow.next().then(({ value }) => value),
      new Promise<'nothing'>((resolve) => setImmediate(() => resolve('nothing'))),
    ]);
    if (next === 'nothing' || next === undefined) return seen;
    if (typeof next !== 'string') seen.push(typeof next === 'number' ? -next : (next[0] as number));
  }
}

describe('a subscriber that is slow', () => {
  test('and drops the oldest gets what came last, and each of those counts as reached', async () => {
    const { tally, slow } = subscriber('drop-oldest', { maxQueued: 3 });
    for (let n = 1; n <= 8; n++) expect(slow.offer(event(n))).toBe(true);
    expect(tally).toMatchObject({ delivered: 3, dropped: 5, heldBytes: held(3, 1) });
    expect(await readAll(slow)).toEqual([-5, 6, 7, 8]);
    expect(tally).toMatchObject({ delivered: 3, dropped: 5, heldBytes: 0 });
  });

  test('and drops the newest gets what came first, and is told of the rest where it is missing', async () => {
    const { tally, slow } = subscriber('drop-newest', { maxQueued: 3 });
    const reached = Array.from({ length: 5 }, (_, n) => slow.offer(event(n + 1)));
    expect(reached).toEqual([true, true, true, false, false]);
    await slow.next(); // that it has subscribed
    expect((await slow.next()).value).toEqual(Uint8Array.of(1));
    expect(slow.offer(event(6))).toBe(true);
    expect(await readAll(slow)).toEqual([2, 3, -2, 6]);
    expect(tally).toMatchObject({ delivered: 4, dropped: 2, heldBytes: 0 });
  });

  test('and disconnects gets an error, and nothing more', async () => {
    const { slow, tally } = subscriber('disconnect', { maxQueued: 2 });
    expect([1, 2, 3, 4].map((n) => slow.offer(event(n)))).toEqual([true, true, false, false]);
    await slow.next();
    await expect(slow.next()).rejects.toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED' });
    expect(tally.heldBytes).toBe(0);
  });

  test.each(['drop-oldest', 'drop-newest'] as const)('has so many bytes as well: %s', async (whenSlow) => {
    const { slow, tally } = subscriber(whenSlow, { maxQueuedBytes: 100 });
    for (let n = 1; n <= 9; n++) slow.offer(event(n, 30));
    expect(tally.heldBytes).toBe(held(3, 30));
    slow.offer(event(10, 90));
    expect(await readAll(slow)).toEqual(whenSlow === 'drop-oldest' ? [-9, 10] : [1, 2, 3, -7]);
    expect(slow.offer(event(1, 500))).toBe(true); // one may always wait, or be read at once
  });

  test('loses what comes, not what it has, where all of them together are full', async () => {
    const { slow, tally } = subscriber('drop-oldest', { maxHeldBytes: held(1, 50) + held(2, 20) + 10 });
    tally.hold(event(1, 50)); // that others have
    expect([1, 2, 3].map((n) => slow.offer(event(n, 20)))).toEqual([true, true, false]);
    expect(tally.heldBytes).toBe(held(1, 50) + held(2, 20));
    expect(await readAll(slow)).toEqual([1, 2, -1]);
  });

  test('takes room by its place in the queue, though the event waits for others already', () => {
    const tally = new Tally(held(3, 1000, 25));
    const limits = { maxQueued: 1000, maxQueuedBytes: PLENTY, whenSlow: 'drop-newest' } as const;
    const slow = Array.from({ length: 10 }, () => new Subscriber('msgpack', limits, tally));
    let reached = 0;
    for (let n = 1; n <= 3; n++) {
      const each = event(n, 1000);
      for (const one of slow) if (one.offer(each)) reached++;
    }
    expect(reached).toBe(25);
    expect(tally.heldBytes).toBe(held(3, 1000, 25));
    for (const one of slow) one.leave();
    expect(tally.heldBytes).toBe(0);
  });

  test('received and left out are what was published, exactly', async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('offer' as const), bytes: fc.integer({ min: 1, max: 60 }) }),
      fc.record({ kind: fc.constant('read' as const), count: fc.integer({ min: 1, max: 6 }) }),
    );
    const limits = fc.record({
      maxQueued: fc.integer({ min: 1, max: 6 }),
      maxQueuedBytes: fc.integer({ min: 1, max: 150 }),
      maxHeldBytes: fc.integer({ min: 1, max: 4 * held(1, 40) }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<WhenSlow>('drop-oldest', 'drop-newest'),
        limits,
        fc.array(step, { maxLength: 60 }),
        async (whenSlow, bounds, steps) => {
          const { slow, tally } = subscriber(whenSlow, bounds);
          await slow.next();
          let published = 0;
          let received = 0;
          let told = 0;
          let last = 0;
          const see = ({ value }: IteratorResult<Item, undefined>): void => {
            if (typeof value === 'number') {
              told += value;
              return;
            }
            received++;
            const n = (value as Uint8Array)[0] as number;
            expect(n).toBeGreaterThan(last);
            last = n;
            expect(received + told).toBe(n); // each gap is told of in its place
          };
          let pending: Promise<void> | undefined;
          for (const next of steps) {
            if (next.kind === 'offer') {
              slow.offer(event(++published, next.bytes));
              await Promise.resolve();
              continue;
            }
            for (let i = 0; i < next.count; i++) {
              pending = slow.next().then(see);
              const read = await Promise.race([
                pending.then(() => true),
                new Promise<false>((resolve) => setImmediate(() => resolve(false))),
              ]);
              if (read) pending = undefined;
              else break;
            }
            if (pending !== undefined) {
              slow.offer(event(++published));
              await pending;
              pending = undefined;
            }
          }
          while (received + told < published) see(await slow.next());
          expect(received + told).toBe(published);
          expect(tally).toMatchObject({ delivered: received, dropped: told, heldBytes: 0 });
        },
      ),
      { numRuns: 200 },
    );
  });
});

test("a subscriber cannot have more than the broker's limits", async () => {
  for (const limit of [{ maxQueued: 4 }, { maxQueuedBytes: 4 * 1000 }]) {
    const broker = new PubsubBroker(limit);
    const metadata = {
      pattern: 'a',
      maxQueued: '1000',
      maxQueuedBytes: '1000000',
      whenSlow: 'drop-newest',
    };
    broker.service['pubsub:subscribe'](undefined, { metadata } as never);
    const reached = Array.from({ length: 10 }, () => broker.publish('a', new Uint8Array(900)));
    expect(reached).toEqual([1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    expect(broker.stats()).toMatchObject({ delivered: 4, dropped: 6 });
  }
});
