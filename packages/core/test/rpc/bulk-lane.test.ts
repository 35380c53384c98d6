import { describe, expect, test } from 'vitest';
import { VerbmqError } from '../../dist/contract/errors.js';
import { OutgoingLease } from '../../dist/contract/outgoing-lease.js';
import { Backlog } from '../../dist/rpc/backlog.js';
import { BulkLane } from '../../dist/rpc/bulk-lane.js';

const FRAME_BYTES = 1048;
/** What of a body goes into a frame. */
const PIECE_BYTES = 1000;

/** The part of a connection that a lane uses: what is sent stays under way until the test says what becomes of it. */
function makeLane({ leases = false } = {}) {
  const sent: { readonly id: number; readonly bytes: number; taken(): void; fail(error: unknown): void }[] =
    [];
  const given: OutgoingLease[] = [];
  let freed = 0;
  const owner = { freeOutgoing: () => void freed++ };
  const connection = {
    capabilities: { zeroCopySend: leases ? 'native' : 'emulated' },
    allocate(bytes: number): OutgoingLease {
      const lease = new OutgoingLease(new Uint8Array(bytes), owner, 0);
      given.push(lease);
      return lease;
    },
    send: (data: Uint8Array | OutgoingLease): Promise<void> =>
      new Promise((taken, fail) => {
        const bytes = data instanceof OutgoingLease ? data.data : data;
        sent.push({ id: bytes[2] as number, bytes: bytes.byteLength - 3, taken, fail });
      }),
  };
  const backlog = new Backlog();
  const lane = new BulkLane(connection as never, FRAME_BYTES, backlog);
  const add = (id: number, pieces: number, announced: true | Promise<void> = true) =>
    lane.add(true, id, new Uint8Array(pieces * PIECE_BYTES), announced);
  return { lane, add, sent, backlog, freed: () => freed, given };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Lets all that is sent pass, and answers whose pieces those were. */
async function pass(sent: { readonly id: number; taken(): void }[]): Promise<number[]> {
  const ids: number[] = [];
  for (let next = sent.shift(); next !== undefined; next = sent.shift()) {
    ids.push(next.id);
    next.taken();
    await settled();
  }
  return ids;
}

describe('a lane of large bodies', () => {
  test('sends a piece of each in turn, two at a time', async () => {
    const { add, sent, backlog } = makeLane();
    const bodies = [add(1, 4), add(2, 1), add(3, 2)];
    expect(sent.map(({ id }) => id)).toEqual([1, 1]); // nobody else was there yet
    expect(await pass(sent)).toEqual([1, 1, 1, 2, 3, 1, 3]);
    await Promise.all(bodies.map((body) => body.sent));
    expect(backlog.bytes).toBe(0);
  });

  test('sends nothing more of one that is cancelled, wherever it stands, and goes on with the others', async () => {
    const { lane, add, sent, backlog } = makeLane();
    const bodies = Array.from({ length: 9 }, (_, n) => add(n + 1, 3));
    expect(backlog.bytes).toBe(25 * PIECE_BYTES);
    // The first, of which two pieces are under way; one in the middle; the last.
    for (const n of [0, 4, 8]) {
      expect(lane.cancel(bodies[n]!.transfer)).toBe(true);
      await bodies[n]!.sent;
    }
    expect(backlog.bytes).toBe(18 * PIECE_BYTES);
    const round = [2, 3, 4, 6, 7, 8];
    expect(await pass(sent)).toEqual([1, 1, ...round, ...round, ...round]);
    await Promise.all(bodies.map((body) => body.sent));
    expect(backlog.bytes).toBe(0);
  });

  test('has nothing left to cancel of one whose last piece is under way, or that was cancelled', async () => {
    const { lane, add, sent, backlog } = makeLane();
    const [one, other] = [add(1, 1), add(2, 3)];
    expect(lane.cancel(one.transfer)).toBe(false);
    expect(lane.cancel(other.transfer)).toBe(true);
    expect(lane.cancel(other.transfer)).toBe(false);
    expect(backlog.bytes).toBe(0);
    expect(await pass(sent)).toEqual([1, 2]);
    expect(lane.cancel(one.transfer)).toBe(false);
    expect(backlog.bytes).toBe(0);
  });

  test('sends nothing of one that is cancelled before its announcement has left', async () => {
    const { lane, add, sent, backlog } = makeLane();
    let announce!: () => void;
    const announced = new Promise<void>((resolve) => {
      announce = resolve;
    });
    const [waiting, cancelled] = [add(1, 1, announced), add(2, 1, announced)];
    expect(lane.cancel(cancelled.transfer)).toBe(true);
    expect(backlog.bytes).toBe(PIECE_BYTES);
    expect(sent).toEqual([]);
    announce();
    await settled();
    expect(await pass(sent)).toEqual([1]);
    await Promise.all([waiting.sent, cancelled.sent]);
    expect(backlog.bytes).toBe(0);
  });

  test('gives back memory of the transport that the connection does not take', async () => {
    const { add, sent, backlog, freed, given } = makeLane({ leases: true });
    const full = new VerbmqError('ERR_VERBMQ_SEND_QUEUE_FULL', 'full');
    const failing = add(1, 3);
    const [first, second] = sent.splice(0);
    given[0]?.markTaken();
    first?.taken();
    second?.fail(full);
    await expect(failing.sent).rejects.toBe(full);
    await settled();
    expect(freed()).toBe(1);
    expect(backlog.bytes).toBe(0);
  });
});
