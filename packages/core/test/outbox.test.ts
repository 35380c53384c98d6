import { expect, test, vi } from 'vitest';
import { VerbmqError } from '../src/contract/errors.js';
import { Outbox, type OutboxHooks } from '../src/contract/outbox.js';
import { isBorrowed, markKept, markReused } from '../src/contract/reused-memory.js';

/** The shortest message that is lent, in bytes. */
const LONG = 1025;

/** An outbox over a transport that takes what `submit` says, and what it was given. */
function make(submit: OutboxHooks['submit']) {
  const taken: { bytes: number[]; mayBorrow: boolean }[] = [];
  let buffered = 0;
  const awaitLeaving = vi.fn();
  const outbox = new Outbox(10_000, {
    submit: (data, lease, mayBorrow) => {
      const answer = submit(data, lease, mayBorrow);
      if (answer !== false) taken.push({ bytes: [...data], mayBorrow });
      return answer;
    },
    bufferedBytes: () => buffered,
    awaitLeaving,
    waitingChanged: () => {},
  });
  return { outbox, awaitLeaving, taken, setBuffered: (bytes: number) => (buffered = bytes) };
}

test('what finds room goes straight to the transport', async () => {
  const { outbox, taken } = make(() => true);
  await outbox.send(Uint8Array.of(1), undefined);
  expect(outbox.trySend(Uint8Array.of(2), undefined)).toBe(true);
  expect(taken).toEqual([
    { bytes: [1], mayBorrow: false },
    { bytes: [2], mayBorrow: false },
  ]);
  expect(outbox).toMatchObject({ messagesSent: 2, bytesSent: 2, waiting: 0, backpressureEvents: 0 });
});

test('what finds none waits in line, and nothing overtakes it', async () => {
  let room = 0;
  const { outbox, taken } = make(() => room-- > 0);
  const sends = [1, 2, 3].map((n) => outbox.send(Uint8Array.of(n), undefined));
  expect(outbox.waiting).toBe(3);
  room = 100;
  expect(outbox.trySend(Uint8Array.of(9), undefined)).toBe(false);
  room = 2;
  outbox.flush();
  await Promise.all(sends.slice(0, 2));
  expect(outbox.waiting).toBe(1);
  room = 100;
  outbox.flush();
  await sends[2];
  expect(taken.map(({ bytes }) => bytes[0])).toEqual([1, 2, 3]);
});

test('a send that the transport borrows resolves when the transport says so', async () => {
  let resolve!: () => void;
  const borrowed = new Promise<void>((done) => {
    resolve = done;
  });
  const { outbox } = make(() => borrowed);
  let settled = false;
  const sending = outbox.send(Uint8Array.of(1), undefined).then(() => {
    settled = true;
  });
  await Promise.resolve();
  expect(settled).toBe(false);
  resolve();
  await sending;
});

test('what lies in memory that is used again is not lent, and copied when it has to wait', async () => {
  let room = 1;
  const { outbox, taken } = make(() => room-- > 0);
  const slot = new Uint8Array(LONG).fill(1);
  markReused(slot.buffer);
  await outbox.send(slot, undefined);
  const waiting = outbox.send(slot, undefined);
  slot.fill(7); // the next message has arrived
  room = 1;
  outbox.flush();
  await waiting;
  expect(taken.map(({ mayBorrow }) => mayBorrow)).toEqual([false, true]);
  for (const { bytes } of taken) expect(bytes).toEqual(new Array(LONG).fill(1));
});

test('drain resolves when nothing waits and nothing is buffered', async () => {
  let room = 0;
  const { outbox, awaitLeaving, setBuffered } = make(() => room-- > 0);
  await outbox.drain();
  const sending = outbox.send(Uint8Array.of(1), undefined);
  const resolved = vi.fn();
  const drained = outbox.drain().then(resolved);
  outbox.settleDrainIfEmpty();
  room = 1;
  setBuffered(1);
  outbox.flush();
  await sending;
  outbox.settleDrainIfEmpty();
  await Promise.resolve();
  expect(resolved).not.toHaveBeenCalled();
  // The transport is told that somebody waits as long as somebody does.
  expect(awaitLeaving).toHaveBeenCalledTimes(3);
  setBuffered(0);
  outbox.settleDrainIfEmpty();
  await drained;
  setBuffered(1);
  expect(outbox.empty).toBe(false);
  outbox.settleDrainIfEmpty();
  expect(awaitLeaving).toHaveBeenCalledTimes(3);
});

test('a failure rejects what waits and who waits', async () => {
  const { outbox } = make(() => false);
  const sending = outbox.send(Uint8Array.of(1), undefined);
  const draining = outbox.drain();
  const error = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost');
  outbox.fail(error);
  await expect(sending).rejects.toBe(error);
  await expect(draining).rejects.toBe(error);
  expect(outbox.waiting).toBe(0);
});

test('what is long is lent, where the send may wait for it', async () => {
  const { outbox, taken } = make(() => true);
  for (const bytes of [LONG - 1, LONG]) await outbox.send(new Uint8Array(bytes), undefined);
  outbox.trySend(new Uint8Array(LONG), undefined);
  expect(taken.map(({ mayBorrow }) => mayBorrow)).toEqual([false, true, false]);
});

test('what lies in such memory is lent when the application has kept it', async () => {
  const { outbox, taken } = make(() => true);
  const message = new Uint8Array(LONG);
  markReused(message.buffer);
  markKept(message.buffer);
  await outbox.send(message, undefined);
  markReused(message.buffer);
  await outbox.send(message, undefined);
  expect(taken.map(({ mayBorrow }) => mayBorrow)).toEqual([true, false]);
});

test('kept memory is borrowed until each send of it has settled, in line or lent, fulfilled or not', async () => {
  const lent: { resolve: () => void; reject: (error: Error) => void }[] = [];
  let room = 2;
  const { outbox } = make(
    () => room-- > 0 && new Promise<void>((resolve, reject) => lent.push({ resolve, reject })),
  );
  const message = new Uint8Array(LONG);
  markReused(message.buffer);
  markKept(message.buffer);
  expect(isBorrowed(message.buffer)).toBe(false);
  const [first, second, third] = [1, 2, 3].map(() => outbox.send(message, undefined));
  lent[0]?.resolve();
  await first;
  lent[1]?.reject(new Error('lost'));
  await expect(second).rejects.toThrow('lost');
  expect(isBorrowed(message.buffer)).toBe(true);
  room = 1;
  outbox.flush();
  lent[2]?.resolve();
  await third;
  expect(isBorrowed(message.buffer)).toBe(false);
});
