import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { Consumer } from '../../dist/queue/consumer.js';
import { HeldBytes } from '../../dist/queue/held-bytes.js';
import { WorkQueue } from '../../dist/queue/work-queue.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const pusher = { signal: new AbortController().signal };

function makeQueue(): WorkQueue {
  return new WorkQueue('jobs', {
    maxReady: 2 ** 31,
    maxReadyBytes: 2 ** 40,
    check: () => {},
    held: new HeldBytes(2 ** 40),
    whenFull: 'refuse',
    maxAttempts: 2 ** 31,
    onDead: () => {},
    onIdle: () => {},
  });
}

let looks = 0;

/** Counts how often it is asked whether it has room. */
class Watched extends Consumer {
  override get hasRoom(): boolean {
    looks++;
    return super.hasRoom;
  }
}

function join(queue: WorkQueue, prefetch: number): Watched {
  const consumer = new Watched(queue, prefetch, undefined, () => {});
  queue.add(consumer);
  return consumer;
}

const push = (queue: WorkQueue, body: number): Promise<void> =>
  queue.push({ body, headers: undefined }, pusher);

/** The tags and bodies of what a consumer is given next, of which there are so many. */
async function taken(consumer: Consumer, count: number): Promise<[number, unknown][]> {
  const all: [number, unknown][] = [];
  while (all.length < count) {
    const { value } = await consumer.next();
    all.push([value?.[0] as number, value?.[3]]);
  }
  return all;
}

describe('giving out work', () => {
  test('looks at nobody who is full, however many are', async () => {
    const queue = makeQueue();
    const consumers = Array.from({ length: 1000 }, () => join(queue, 1));
    for (let n = 0; n < 2000; n++) await push(queue, n);
    looks = 0;
    // Each verdict makes room at one of them, which gets the next.
    for (const consumer of consumers) consumer.judge({ tag: 1, verdict: 'done' });
    expect(queue.stats()).toMatchObject({ acknowledged: 1000, unacknowledged: 1000, ready: 0 });
    expect(looks).toBeLessThanOrEqual(4 * consumers.length);
  });

  test('is fair: each in turn, whatever its prefetch, and who has room again comes behind those who have', async () => {
    const queue = makeQueue();
    const [one, two, three] = [join(queue, 1), join(queue, 4), join(queue, 2)];
    for (let n = 0; n < 7; n++) await push(queue, n);
    expect(await taken(one, 1)).toEqual([[1, 0]]);
    expect(await taken(two, 4)).toEqual([
      [1, 1],
      [2, 3],
      [3, 5],
      [4, 6],
    ]);
    expect(await taken(three, 2)).toEqual([
      [1, 2],
      [2, 4],
    ]);
    three.judge({ tag: 1, verdict: 'done' });
    one.judge({ tag: 1, verdict: 'done' });
    for (let n = 7; n < 9; n++) await push(queue, n);
    expect(await taken(three, 1)).toEqual([[3, 7]]);
    expect(await taken(one, 1)).toEqual([[2, 8]]);
  });
});

describe('a consumer that judges what it does not read', () => {
  test('costs no more than one that reads', async () => {
    const queue = makeQueue();
    const prefetch = 65_536;
    const consumer = join(queue, prefetch);
    for (let n = 0; n < 4 * prefetch; n++) await push(queue, n);
    for (let tag = 1; tag <= 3 * prefetch; tag++) consumer.judge({ tag, verdict: 'done' });
    expect(queue.stats()).toMatchObject({ acknowledged: 3 * prefetch, unacknowledged: prefetch, ready: 0 });
    const first = await consumer.next();
    expect(first.value).toEqual([3 * prefetch + 1, 1, null, 3 * prefetch]);
  });

  test('keeps no more than twice its prefetch', async () => {
    const queue = makeQueue();
    const prefetch = 1000;
    const consumer = join(queue, prefetch);
    const bodies: WeakRef<object>[] = [];
    for (let tag = 1; tag <= 20 * prefetch; tag++) {
      const body = {};
      bodies.push(new WeakRef(body));
      await queue.push({ body, headers: undefined }, pusher);
      consumer.judge({ tag, verdict: 'done' });
    }
    await new Promise((resolve) => setImmediate(resolve)); // until then what a WeakRef refers to stays
    collectGarbage();
    expect(queue.stats()).toMatchObject({ acknowledged: 20 * prefetch, unacknowledged: 0, consumers: 1 });
    const kept = bodies.filter((body) => body.deref() !== undefined).length;
    expect(kept).toBeGreaterThan(0);
    expect(kept).toBeLessThanOrEqual(2 * prefetch);
  });

  test('leaves in time proportional to what it has', async () => {
    const queue = makeQueue();
    const count = 65_536;
    const consumer = join(queue, count);
    for (let n = 0; n < 12 * count; n++) await push(queue, n);
    consumer.leave();
    expect(queue.stats()).toMatchObject({ ready: 12 * count, unacknowledged: 0 });
    const next = join(queue, 1);
    expect(await taken(next, 1)).toEqual([[1, 0]]);
  });
});
