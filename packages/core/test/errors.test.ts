import { describe, expect, test } from 'vitest';
import { ERROR_CODES, isVerbmqError, VerbmqError } from '../src/contract/errors.js';

describe('VerbmqError', () => {
  test('has a name, a code, a message and a cause', () => {
    const cause = new Error('below');
    const error = new VerbmqError('ERR_VERBMQ_CLOSED', 'send: closed', { cause, reason: 'finer' });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({
      name: 'VerbmqError',
      code: 'ERR_VERBMQ_CLOSED',
      message: 'send: closed',
      cause,
      reason: 'finer',
      retryable: false,
    });
    expect(error.outcome).toBeUndefined();
    expect(error.stack).toContain('send: closed');
  });

  test('has no cause of its own where none was given', () => {
    expect('cause' in new VerbmqError('ERR_VERBMQ_CLOSED', 'closed')).toBe(false);
  });

  test('says whether the same call may succeed later, which its maker may overrule', () => {
    expect(new VerbmqError('ERR_VERBMQ_CONNECT_FAILED', 'x').retryable).toBe(true);
    expect(new VerbmqError('ERR_VERBMQ_MESSAGE_TOO_LARGE', 'x').retryable).toBe(false);
    expect(new VerbmqError('ERR_VERBMQ_CONNECT_FAILED', 'x', { retryable: false }).retryable).toBe(false);
  });

  test('is what it was for an operation that certainly had no effect', () => {
    const error = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost');
    expect(error.withKnownOutcome()).toBe(error);
    const unknown = error.withUnknownOutcome();
    expect(unknown.withUnknownOutcome()).toBe(unknown);
    expect(unknown.withKnownOutcome()).toBe(error);
    const made = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'in the middle', {
      outcome: 'unknown',
      retryable: false,
    });
    expect(made.withKnownOutcome()).toMatchObject({
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      message: 'in the middle',
      outcome: undefined,
      retryable: true,
      cause: made,
    });
  });

  test('keeps what it says when its outcome is unknown, and is not to be repeated then', () => {
    const error = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost', { reason: 'cable' });
    const unknown = error.withUnknownOutcome();
    expect(unknown).toMatchObject({
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      outcome: 'unknown',
      reason: 'cable',
      retryable: false,
      cause: error,
    });
    expect(unknown.message).toContain('lost');
    expect(error.outcome).toBeUndefined();
  });

  test('is told from other errors, and by its code', () => {
    const error = new VerbmqError('ERR_VERBMQ_CLOSED', 'x');
    expect(isVerbmqError(error)).toBe(true);
    expect(isVerbmqError(error, 'ERR_VERBMQ_CLOSED')).toBe(true);
    expect(isVerbmqError(error, 'ERR_VERBMQ_ABORTED')).toBe(false);
    expect(isVerbmqError(new Error('x'))).toBe(false);
    expect(isVerbmqError({ code: 'ERR_VERBMQ_CLOSED' })).toBe(false);
  });
});

test('error codes are unique, of one form, and sorted for those who look one up', () => {
  expect(new Set(ERROR_CODES).size).toBe(ERROR_CODES.length);
  for (const code of ERROR_CODES) expect(code).toMatch(/^ERR_VERBMQ_[A-Z]+(_[A-Z]+)*$/);
});
