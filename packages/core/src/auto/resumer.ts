import type { Connection } from '../contract/connection.js';
import { type ErrorCode, isVerbmqError, VerbmqError } from '../contract/errors.js';
import { Backoff } from './backoff.js';

export interface ResumerHooks {
  /** Opens a base connection and resumes the session on it. Rejects when it cannot, or when `signal` aborts. */
  reconnect(signal: AbortSignal): Promise<Connection>;
  resumed(base: Connection): void;
  /** It is over: the time is, or the peer does not know the session. */
  failed(error: VerbmqError): void;
}

/** Of refusals that no other word is given for. */
const REASONS: Partial<Record<ErrorCode, string>> = {
  ERR_VERBMQ_TLS: 'tls',
  ERR_VERBMQ_VERSION: 'version',
  ERR_VERBMQ_PROTOCOL: 'protocol',
};

/** No attempt is given up sooner, in milliseconds, whatever the longest pause: a handshake by TLS takes several round trips. */
const MIN_ATTEMPT_MS = 1000;

/**
 * The client's attempts to get a base connection again, within a window of time. Holds nothing while there is one.
 *
 * An attempt that hangs, as it does when packets vanish or a server is stopped, is given up for the next one. It may take as long as
 * the longest pause between two, and after each that took too long twice as long, so that a slow link is not the end.
 */
export class Resumer {
  readonly #windowMs: number;
  readonly #backoff: Backoff;
  readonly #hooks: ResumerHooks;
  readonly #firstAttemptMs: number;
  readonly #longestAttemptMs: number;
  #attemptMs: number;
  #lost: VerbmqError | undefined;
  #controller: AbortController | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #pause: NodeJS.Timeout | undefined;

  /** @param longestAttemptMs the most that one attempt may take */
  constructor(windowMs: number, maxDelayMs: number, longestAttemptMs: number, hooks: ResumerHooks) {
    this.#windowMs = windowMs;
    this.#backoff = new Backoff(Math.ceil(maxDelayMs / 20), maxDelayMs);
    this.#firstAttemptMs = Math.min(longestAttemptMs, Math.max(maxDelayMs, MIN_ATTEMPT_MS));
    this.#longestAttemptMs = longestAttemptMs;
    this.#attemptMs = this.#firstAttemptMs;
    this.#hooks = hooks;
  }

  /** The base connection was lost for this reason. */
  start(lost: VerbmqError): void {
    this.#lost = lost;
    if (this.#windowMs === 0) {
      this.#fail('resume-off', 'sessions are not resumed (resumeWindowMs is 0)');
      return;
    }
    this.#controller = new AbortController();
    this.#deadline = setTimeout(() => {
      this.#fail('resume-timeout', `the session could not be resumed within ${this.#windowMs} ms`);
    }, this.#windowMs);
    this.#attemptLater();
  }

  /** Ends every attempt at once. */
  stop(): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#pause);
    this.#controller?.abort(new VerbmqError('ERR_VERBMQ_CLOSED', 'the session has ended'));
    this.#controller = undefined;
  }

  #attemptLater(): void {
    this.#pause = setTimeout(() => void this.#attempt(), this.#backoff.next());
  }

  async #attempt(): Promise<void> {
    const { signal } = this.#controller as AbortController;
    const attempt = new AbortController();
    const stop = (): void => attempt.abort(signal.reason);
    signal.addEventListener('abort', stop);
    const timer = setTimeout(() => this.#tookTooLong(attempt), this.#attemptMs);
    let base: Connection;
    try {
      base = await this.#hooks.reconnect(attempt.signal);
    } catch (error) {
      if (signal.aborted) return;
      if (isVerbmqError(error) && error.retryable) this.#attemptLater();
      else this.#refused(error);
      return;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    }
    if (signal.aborted) base.abort('the session has ended');
    else this.#resumed(base);
  }

  #resumed(base: Connection): void {
    clearTimeout(this.#deadline);
    this.#controller = undefined;
    this.#backoff.reset();
    this.#attemptMs = this.#firstAttemptMs;
    this.#hooks.resumed(base);
  }

  /** Another attempt would come to the same. */
  #refused(error: unknown): void {
    const known = isVerbmqError(error) ? error : undefined;
    const reason = known?.reason ?? (known && REASONS[known.code]) ?? 'refused';
    this.#fail(reason, `it cannot be resumed: ${known?.message ?? error}`, error);
  }

  #tookTooLong(attempt: AbortController): void {
    const what = `an attempt to resume took longer than ${this.#attemptMs} ms`;
    this.#attemptMs = Math.min(2 * this.#attemptMs, this.#longestAttemptMs);
    attempt.abort(new VerbmqError('ERR_VERBMQ_CONNECT_TIMEOUT', what));
  }

  #fail(reason: string, what: string, cause: unknown = this.#lost): void {
    this.stop();
    const lost = this.#lost as VerbmqError;
    // A new session can be had where the time was over, or this one is not known; not where this side is not let in.
    const retryable = cause === lost || reason === 'session-unknown';
    const words = `${lost.message}, and ${what}`;
    this.#hooks.failed(new VerbmqError(lost.code, words, { cause, reason, retryable }));
  }
}
