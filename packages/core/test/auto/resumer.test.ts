import { describe, expect, onTestFinished, test, vi } from 'vitest';
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

describe('the times between attempts', () => {
  const BASE = {} as Connection;
  const refused = (): Promise<Connection> =>
    Promise.reject(new VerbmqError('ERR_VERBMQ_CONNECT_FAILED', 'nobody is there'));
  const hanging = (signal: AbortSignal): Promise<Connection> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

  /** What passes between attempts, to 10 ms, when each pause is so large a part of what it may be. */
  function scene(part: number) {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const random = vi.spyOn(Math, 'random').mockReturnValue(part);
    onTestFinished(() => {
      random.mockRestore();
      vi.useRealTimers();
    });
    let attempt: (signal: AbortSignal) => Promise<Connection>;
    let times: number[];
    const resumer = new Resumer(600_000, 1000, 5000, {
      reconnect: (signal) => {
        times.push(performance.now());
        return attempt(signal);
      },
      resumed: () => {},
      failed: (error) => {
        throw error;
      },
    });
    onTestFinished(() => resumer.stop());
    return async (how: typeof attempt, forMs: number): Promise<number[]> => {
      attempt = how;
      times = [performance.now()];
      resumer.start(LOST);
      await vi.advanceTimersByTimeAsync(forMs);
      attempt = async () => BASE;
      await vi.advanceTimersByTimeAsync(20_000);
      return times.slice(1).map((at, n) => Math.round((at - (times[n] as number)) / 10) * 10);
    };
  }

  test('grow up to the longest, and begin anew when the session was resumed', async () => {
    const attempts = scene(1);
    const pauses = [50, 100, 200, 400, 800, 1000, 1000];
    expect(await attempts(refused, 3000)).toEqual(pauses);
    expect(await attempts(refused, 700)).toEqual(pauses.slice(0, 4));
  });

  test('which hang, are twice as long each time up to the longest attempt, and begin anew as well', async () => {
    const attempts = scene(0);
    expect(await attempts(hanging, 16_500)).toEqual([0, 1000, 2000, 4000, 5000, 5000]);
    expect(await attempts(hanging, 2500)).toEqual([0, 1000, 2000]);
  });
});
