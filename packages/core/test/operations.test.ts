import { describe, expect, test } from 'vitest';
import { VerbmqError } from '../src/contract/errors.js';
import { allEnded, PendingOperations } from '../src/contract/operations.js';

const FULL = expect.objectContaining({ code: 'ERR_VERBMQ_SEND_QUEUE_FULL' });

/** Promises that are settled by hand. */
function parts(count: number) {
  const all: { resolve(): void; reject(error: unknown): void }[] = [];
  const promises = Array.from({ length: count }, () => {
    return new Promise<void>((resolve, reject) => all.push({ resolve, reject }));
  });
  return { all, promises };
}

const lost = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost');
const denied = new VerbmqError('ERR_VERBMQ_NO_BUFFERS', 'denied');

describe('pending operations', () => {
  test('are bounded, and a vector counts as many as it has pieces', async () => {
    const operations = new PendingOperations(() => {});
    const { all, promises } = parts(2);
    const running = [operations.run(() => promises[0]!, 65_535), operations.run(() => promises[1]!)];
    expect(operations.pending).toBe(65_536);
    expect(() => operations.run(() => Promise.resolve())).toThrow(FULL);
    expect(() => operations.run(() => Promise.resolve(), 1024)).toThrow(FULL);
    all[0]!.resolve();
    await running[0];
    expect(operations.pending).toBe(1);
    expect(() => operations.run(() => Promise.resolve(), 65_536)).toThrow(FULL);
    await operations.run(() => Promise.resolve(), 65_535);
    all[1]!.resolve();
    await running[1];
    expect(operations.pending).toBe(0);
  });
});

describe('all parts of an operation', () => {
  test('are waited for also when the first has failed, and the first error counts', async () => {
    const { all, promises } = parts(3);
    let ended = false;
    const whole = allEnded(promises, false).finally(() => {
      ended = true;
    });
    whole.catch(() => {});
    all[2]!.reject(lost);
    all[0]!.reject(denied);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended).toBe(false);
    all[1]!.resolve();
    await expect(whole).rejects.toBe(lost);
  });

  test.each([
    ['none was begun', [denied, denied], undefined],
    ['one was done', [undefined, denied], 'unknown'],
    ['one may have been done', [denied, lost.withUnknownOutcome()], 'unknown'],
  ])('that change something: %s', async (_, outcomes, outcome) => {
    const promises = outcomes.map((error) =>
      error === undefined ? Promise.resolve() : Promise.reject(error),
    );
    const error: unknown = await allEnded(promises, true).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_NO_BUFFERS', outcome });
  });
});
