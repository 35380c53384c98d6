import { describe, expect, onTestFinished, test } from 'vitest';
import { Resumer } from '../../src/auto/resumer.js';
import { type Connection, ERROR_CODES, VerbmqError } from '../../src/index.js';

const LOST = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'it was lost');

/** How a session goes on of which the first attempt to resume ends with this error. */
function after(error: unknown): Promise<'attempted again' | VerbmqError> {
  return new Promise((resolve) => {
    let attempts = 0;
    const resumer = new Resumer(60_000, 20, 60_000, {
      reconnect: async (signal) => {
        if (attempts++ === 0) throw error;
        resolve('attempted again');
        return new Promise<Connection>((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        );
      },
      resumed: () => {},
      failed: resolve,
    });
    onTestFinished(() => resumer.stop());
    resumer.start(LOST);
  });
}

describe('an attempt to resume that fails', () => {
  const errors = ERROR_CODES.map((code) => new VerbmqError(code, 'no'));

  test.each(errors.filter(({ retryable }) => retryable))(
    'with $code is followed by another one',
    async (error) => {
      expect(await after(error)).toBe('attempted again');
    },
  );

  test.each(errors.filter(({ retryable }) => !retryable))('with $code is the last one', async (error) => {
    expect(await after(error)).toMatchObject({ code: LOST.code, cause: error, retryable: false });
  });

  test.each([
    [new VerbmqError('ERR_VERBMQ_TLS', 'no'), 'tls'],
    [new VerbmqError('ERR_VERBMQ_VERSION', 'no'), 'version'],
    [new VerbmqError('ERR_VERBMQ_PROTOCOL', 'no'), 'protocol'],
    [new VerbmqError('ERR_VERBMQ_REJECTED', 'no'), 'refused'],
    [new VerbmqError('ERR_VERBMQ_REJECTED', 'no', { reason: 'authentication' }), 'authentication'],
    [new TypeError('no'), 'refused'],
  ])('with %s has the reason %s', async (error, reason) => {
    expect(await after(error)).toMatchObject({ code: LOST.code, cause: error, reason, retryable: false });
  });

  test('because the session is not known says that a new one can be had', async () => {
    const error = new VerbmqError('ERR_VERBMQ_REJECTED', 'no', { reason: 'session-unknown' });
    expect(await after(error)).toMatchObject({ reason: 'session-unknown', retryable: true });
  });

  test('within TLS, without a word of the peer, is followed by another one', async () => {
    const error = new VerbmqError('ERR_VERBMQ_TLS', 'it hung up', { retryable: true });
    expect(await after(error)).toBe('attempted again');
  });
});
