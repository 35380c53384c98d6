import { VerbmqError } from '../contract/errors.js';
import type { ServerStream } from '../rpc/service.js';
import { clearWheelTimer, setWheelTimer } from '../rpc/timer-wheel.js';
import type { Delivery, Verdict } from './consumer.js';
import type { Verdicts } from './verdicts.js';

/** Work that was given to this consumer. It is the consumer's until it says what became of it. */
export interface Job<Body> {
  readonly body: Body;
  /** 1 when it is given for the first time. */
  readonly attempt: number;
  /** It is done. Of a job that was judged already, nothing more is said. */
  acknowledge(): void;
  /** It was not done. It is given to somebody again, unless `requeue` is `false`. */
  reject(options?: { readonly requeue?: boolean }): void;
}

/** A consumer at the side of the client: what the broker gives it, and what it says of that. */
export class Deliveries<Body> {
  readonly #stream: ServerStream<unknown>;
  readonly #verdicts: Verdicts;
  readonly #prefetch: number;
  readonly #leaveTimeoutMs: number;
  /** Settles with the read that was asked for last. */
  #lastRead: Promise<unknown> = Promise.resolve();
  #left: Promise<void> | undefined;
  /** What went wrong after this consumer had begun to leave. */
  #failure: unknown;

  constructor(stream: ServerStream<unknown>, verdicts: Verdicts, prefetch: number, leaveTimeoutMs: number) {
    this.#stream = stream;
    this.#verdicts = verdicts;
    this.#prefetch = prefetch;
    this.#leaveTimeoutMs = leaveTimeoutMs;
  }

  /** The next job; `undefined` when the broker has ended the consumption, or this consumer leaves. */
  next(): Promise<Job<Body> | undefined> {
    const read = this.#lastRead.then(() => this.#read());
    this.#lastRead = read.catch(() => {});
    return read;
  }

  async #read(): Promise<Job<Body> | undefined> {
    try {
      // A broker that keeps to the prefetch gives nothing more before it has read these. One that does not read them waits as well.
      await this.#verdicts.fewerThan(this.#prefetch);
      const { done, value } = await this.#stream.next();
      // A job that comes when this consumer leaves is not begun, and goes to others.
      if (done !== true && this.#left === undefined) return jobOf<Body>(value, this.#verdicts);
    } catch (error) {
      if (this.#left === undefined) {
        this.#left = Promise.resolve();
        this.#verdicts.end();
        this.#stream.cancel(error);
        throw error;
      }
      this.#failure ??= error;
    }
    this.#verdicts.end();
    return undefined;
  }

  /**
   * Gives back what is not judged, and resolves when the broker knows what was. Rejects when the connection is lost before,
   * and with `ERR_VERBMQ_CLOSE_TIMEOUT` when that takes longer than it may.
   */
  leave(): Promise<void> {
    this.#left ??= this.#leave();
    return this.#left;
  }

  async #leave(): Promise<void> {
    const timeoutMs = this.#leaveTimeoutMs;
    const timer = setWheelTimer(timeoutMs, () => {
      this.#failure = new VerbmqError(
        'ERR_VERBMQ_CLOSE_TIMEOUT',
        `the broker did not let a consumer go within ${timeoutMs} ms: what it judged last may be given again`,
      );
      this.#stream.cancel(this.#failure);
    });
    this.#verdicts.end();
    try {
      await this.#lastRead;
      for await (const _ of this.#stream);
    } catch (error) {
      this.#failure ??= error;
    }
    clearWheelTimer(timer);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` for what a broker does not send. */
function jobOf<Body>(value: unknown, verdicts: Verdicts): Job<Body> {
  const delivery = value as Delivery | null | undefined;
  if (!Number.isSafeInteger(delivery?.tag) || !Number.isSafeInteger(delivery?.attempt)) {
    throw new VerbmqError('ERR_VERBMQ_PROTOCOL', 'the broker gave what is no work');
  }
  const { tag, attempt, body } = delivery as Delivery;
  let judged = false;
  const judge = (verdict: Verdict['verdict']): void => {
    if (judged) return;
    judged = true;
    verdicts.push({ tag, verdict });
  };
  return {
    body: body as Body,
    attempt,
    acknowledge: () => judge('done'),
    reject: ({ requeue = true } = {}) => judge(requeue ? 'again' : 'never'),
  };
}
