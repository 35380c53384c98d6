import { describe, expect, test } from 'vitest';
import { Consumer } from '../../dist/queue/consumer.js';
import { HeldBytes } from '../../dist/queue/held-bytes.js';
import { WorkQueue } from '../../dist/queue/work-queue.js';

const pusher = { signal: new AbortController().signal };

function makeQueue(): WorkQueue {
  return new WorkQueue('jobs', {
    maxReady: 2 ** 31,
    maxReadyBytes: 2 ** 40,
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
    all.push([value?.tag as number, value?.body]);
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
  test('costs no more than one that reads, and keeps no more than twice its prefetch', async () => {
    const queue = makeQueue();
    const prefetch = 65_536;
    const consumer = join(queue, prefetch);
    for (let n = 0; n < 4 * prefetch; n++) await push(queue, n);
    for (let tag = 1; tag <= 3 * prefetch; tag++) consumer.judge({ tag, verdict: 'done' });
    expect(queue.stats()).toMatchObject({ acknowledged: 3 * prefetch, unacknowledged: prefetch, ready: 0 });
    const first = await consumer.next();
    expect(first.value).toMatchObject({ tag: 3 * prefetch + 1, body: 3 * prefetch });
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
