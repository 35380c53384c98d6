import fc from 'fast-check';
import { expect, test } from 'vitest';
import { VerbmqError } from '../src/contract/errors.js';
import { OutgoingLease } from '../src/contract/outgoing-lease.js';
import { SendQueue, type WaitingSend } from '../src/contract/send-queue.js';

const bytes = (length: number): Uint8Array => new Uint8Array(length);

test('sends come out in the order in which they went in, whatever the pattern', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.nat(50), fc.constant('take' as const)), { maxLength: 5000 }),
      (steps) => {
        const queue = new SendQueue(Number.MAX_SAFE_INTEGER);
        const model: Uint8Array[] = [];
        for (const step of steps) {
          if (step === 'take') {
            expect(queue.peek()?.data).toBe(model.shift());
            queue.shift();
          } else {
            const data = bytes(step);
            void queue.push(data, undefined);
            model.push(data);
          }
          expect(queue.length).toBe(model.length);
          expect(queue.bytes).toBe(model.reduce((sum, { byteLength }) => sum + byteLength, 0));
        }
      },
    ),
    { numRuns: 50 },
  );
});

test('what is withdrawn does not come out, and keeps neither bytes nor its place', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({ push: fc.nat(50) }),
          fc.record({ withdraw: fc.nat(100) }),
          fc.constant('take' as const),
        ),
        { maxLength: 2000 },
      ),
      (steps) => {
        const queue = new SendQueue(Number.MAX_SAFE_INTEGER);
        const model: WaitingSend[] = [];
        for (const step of steps) {
          if (step === 'take') {
            const first = model.shift();
            expect(queue.peek()).toBe(first);
            queue.shift();
            if (first !== undefined) expect(first).toMatchObject({ waits: false, data: bytes(0) });
          } else if ('push' in step) {
            model.push(queue.push(bytes(step.push), undefined));
          } else if (model.length > 0) {
            const [waiting] = model.splice(step.withdraw % model.length, 1);
            queue.withdraw(waiting as WaitingSend);
            expect(waiting).toMatchObject({ waits: false, data: bytes(0) });
          }
          expect(queue.length).toBe(model.length);
          expect(queue.bytes).toBe(model.reduce((sum, { bytes }) => sum + bytes, 0));
          expect(queue.peek()).toBe(model[0]);
        }
      },
    ),
    { numRuns: 50 },
  );
});

test('a long queue is taken in time proportional to its length', () => {
  const queue = new SendQueue(Number.MAX_SAFE_INTEGER);
  const count = 100_000;
  for (let n = 0; n < count; n++) void queue.push(bytes(1), undefined);
  for (let n = 0; n < count; n++) {
    queue.shift();
    if (n % 10 === 0) void queue.push(bytes(1), undefined);
  }
  expect(queue.length).toBe(count / 10);
});

test('what waits is bounded in bytes and overhead, so that empty messages are bounded too', () => {
  const queue = new SendQueue(2000);
  void queue.push(bytes(500), undefined);
  void queue.push(bytes(300), undefined);
  expect(() => queue.push(bytes(100), undefined)).toThrow(
    expect.objectContaining({ code: 'ERR_VERBMQ_SEND_QUEUE_FULL' }),
  );
  expect(queue.length).toBe(2);
  const empty = new SendQueue(15 * 512 + 100);
  let accepted = 0;
  expect(() => {
    for (; ; accepted++) void empty.push(bytes(0), undefined);
  }).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_SEND_QUEUE_FULL' }));
  expect(accepted).toBe(15);
});

test('an empty queue takes anything', () => {
  const queue = new SendQueue(10);
  void queue.push(bytes(1000), undefined);
  expect(queue.length).toBe(1);
});

test('failing rejects all that wait and gives their buffers back', async () => {
  const freed: number[] = [];
  const owner = { freeOutgoing: (lease: OutgoingLease) => void freed.push(lease.token) };
  const queue = new SendQueue(10_000);
  queue.push(bytes(1), undefined).sent.catch(() => {});
  queue.shift(); // it left: its promise is the transport's
  const plain = queue.push(bytes(1), undefined).sent;
  const leased = queue.push(bytes(1), new OutgoingLease(bytes(1), owner, 7)).sent;
  const error = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost');
  queue.fail(error);
  await expect(plain).rejects.toBe(error);
  await expect(leased).rejects.toBe(error);
  expect(freed).toEqual([7]);
  expect([queue.length, queue.bytes, queue.peek()]).toEqual([0, 0, undefined]);
});
