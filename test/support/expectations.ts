import { type ErrorCode, VerbmqError } from '@verbmq/core';
import { expect } from 'vitest';

/** What an operation must come to: a value, an error of this class, or a VerbmqError of this code. */
export type Outcome = 'ok' | ErrorCode | typeof TypeError | typeof RangeError;

/** Runs `operation`, awaits it, and answers with how it ended. */
export async function outcomeOf(operation: () => unknown): Promise<Outcome> {
  try {
    await operation();
    return 'ok';
  } catch (error) {
    return classify(error);
  }
}

/** @throws what is neither a VerbmqError nor a TypeError nor a RangeError: no such thing may reach a program. */
export function classify(error: unknown): Outcome {
  if (error instanceof VerbmqError) return error.code;
  if (error instanceof TypeError) return TypeError;
  if (error instanceof RangeError) return RangeError;
  throw error;
}

/** Awaits the failure of `promise` with `code`, and answers with the error. */
export async function failure(promise: Promise<unknown>, ...codes: ErrorCode[]): Promise<VerbmqError> {
  const error = await promise.then(
    () => {
      throw new Error(`this should have failed with ${codes.join(' or ')}`);
    },
    (reason: unknown) => reason,
  );
  if (!(error instanceof VerbmqError)) throw error;
  expect(codes).toContain(error.code);
  expect(error.message).not.toBe('');
  return error;
}

/** How a promise that is to fail later did fail; nothing is unhandled meanwhile. */
export function settled(promise: Promise<unknown>): Promise<Outcome> {
  return promise.then(() => 'ok' as const, classify);
}

/** Whether a promise is still pending when everything that is ready now has run. */
export async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  const first = await Promise.race([
    promise.then(
      () => undefined,
      () => undefined,
    ),
    turns().then(() => pending),
  ]);
  return first === pending;
}

/** Resolves after everything that is ready now has run: some turns of the event loop. */
export async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
