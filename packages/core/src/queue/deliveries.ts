import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { refusal, releasedError } from '../rpc/broker-errors.js';
import type { ServerStream } from '../rpc/service.js';
import { clearWheelTimer, setWheelTimer } from '../rpc/timer-wheel.js';
import { queueChannels } from './diagnostics.js';
import { GivenJob } from './given-job.js';
import type { Verdicts } from './verdicts.js';

export interface DeliverySettings {
  readonly queue: string;
  readonly connection: Connection;
  readonly prefetch: number;
  readonly leaveTimeoutMs: number;
}

/** A consumer at the side of the client: what the broker gives it, and what it says of that. */
export class Deliveries<Body> {
  readonly #stream: ServerStream<unknown>;
  readonly #verdicts: Verdicts;
  readonly #settings: DeliverySettings;
  /** The jobs that somebody traces, until they are over. */
  readonly #traced = new Set<GivenJob<Body>>();
  /** Settles with the read that was asked for last. */
  #lastRead: Promise<unknown> = Promise.resolve();
  #left: Promise<void> | undefined;
  /** What went wrong after this consumer had begun to leave. */
  #failure: unknown;

  constructor(stream: ServerStream<unknown>, verdicts: Verdicts, settings: DeliverySettings) {
    this.#stream = stream;
    this.#verdicts = verdicts;
    this.#settings = settings;
  }

  /** This consumer leaves, or is lost: nobody hears what is said of a job, which is given to somebody else. */
  get ended(): boolean {
    return this.#verdicts.ended;
  }

  /** The next job; `undefined` when this consumer leaves. @throws (by rejecting) also when the broker lets it go. */
  next(): Promise<GivenJob<Body> | undefined> {
    const read = this.#lastRead.then(() => this.#read());
    this.#lastRead = read.catch(() => {});
    return read;
  }

  async #read(): Promise<GivenJob<Body> | undefined> {
    try {
      // A broker that keeps to the prefetch gives nothing more before it has read these. One that does not read them waits as well.
      await this.#verdicts.fewerThan(this.#settings.prefetch);
      for (;;) {
        const { done, value } = await this.#stream.next();
        if (done === true) {
          if (this.#left === undefined) throw releasedError('consumer', 'consume again');
          break;
        }
        // A job that nobody can be told of, because this consumer leaves or is lost, is not begun: it goes to others.
        if (!this.#verdicts.ended) return new GivenJob<Body>(value, this.#verdicts);
      }
    } catch (failure) {
      const error = refusal(failure, 'queues');
      if (this.#left === undefined) {
        this.#left = Promise.resolve();
        this.#end(error);
        this.#stream.cancel(error);
        throw error;
      }
      this.#failure ??= error;
    }
    this.#end();
    return undefined;
  }

  /** Runs `run`, which does not throw, on behalf of a job, where somebody traces within its trace. */
  run<T>(given: GivenJob<Body>, run: () => T): T {
    if (!queueChannels.job.hasSubscribers) return run();
    const { attempt, headers } = given.job;
    const { queue, connection } = this.#settings;
    this.#traced.add(given);
    const trace = { queue, connection, attempt, headers, verdict: undefined };
    return given.traced(trace, run, () => this.#traced.delete(given));
  }

  /** Nothing that is said from now on is heard: what was not judged is given to others. */
  #end(error?: unknown): void {
    this.#verdicts.end();
    for (const given of this.#traced) given.lost(error ?? goneError());
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
    const timeoutMs = this.#settings.leaveTimeoutMs;
    const timer = setWheelTimer(timeoutMs, () => {
      this.#failure = new VerbmqError(
        'ERR_VERBMQ_CLOSE_TIMEOUT',
        `the broker did not let a consumer go within ${timeoutMs} ms: what it judged last may be given again`,
      );
      this.#stream.cancel(this.#failure);
    });
    this.#end();
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

function goneError(): VerbmqError {
  return new VerbmqError(
    'ERR_VERBMQ_CANCELLED',
    'the consumer has left before it judged the job, which is given to somebody else',
  );
}
