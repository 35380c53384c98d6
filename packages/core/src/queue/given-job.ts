import { VerbmqError } from '../contract/errors.js';
import { type MessageHeaders, receivedHeaders } from '../rpc/message-headers.js';
import type { Delivery, Verdict } from './consumer.js';
import { type JobTrace, queueChannels } from './diagnostics.js';
import type { Verdicts } from './verdicts.js';

/** Work that was given to this consumer. It is the consumer's until it says what became of it. */
export interface Job<Body> {
  /** What was pushed. It is the program's own. */
  readonly body: Body;
  /** 1 when it is given for the first time. */
  readonly attempt: number;
  /** What was sent beside the body. */
  readonly headers: MessageHeaders;
  /** It is done. Of a job that was judged already, nothing more is said. */
  acknowledge(): void;
  /** It was not done. It is given to somebody again, unless `requeue` is `false`. */
  reject(options?: { readonly requeue?: boolean }): void;
}

/** A job, and what those who trace get to know of it. */
export class GivenJob<Body> {
  readonly job: Job<Body>;
  readonly #tag: number;
  readonly #verdicts: Verdicts;
  #judged = false;
  #trace: JobTrace | undefined;
  #end: ((failure?: { readonly error: unknown }) => void) | undefined;

  /** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` for what a broker does not send. */
  constructor(value: unknown, verdicts: Verdicts) {
    if (!Array.isArray(value)) throw nonsense();
    const [tag, attempt, headers, body] = value as unknown as Delivery;
    if (!Number.isSafeInteger(tag) || !Number.isSafeInteger(attempt)) throw nonsense();
    this.#tag = tag;
    this.#verdicts = verdicts;
    this.job = {
      body: body as Body,
      attempt,
      headers: receivedHeaders(headers ?? undefined, nonsense),
      acknowledge: () => this.#judge('done'),
      reject: ({ requeue = true } = {}) => this.#judge(requeue ? 'again' : 'never'),
    };
  }

  /** Runs `run`, which does not throw, within the trace of this job, which lasts until the job is judged or lost: `onOver` is called then. */
  traced<T>(trace: JobTrace, run: () => T, onOver: () => void): T {
    this.#trace = trace;
    let result!: T;
    const over = new Promise<void>((resolve, reject) => {
      this.#end = (failure) => {
        onOver();
        if (failure === undefined) resolve();
        else reject(failure.error);
      };
    });
    queueChannels.job
      .tracePromise(() => {
        result = run();
        return over;
      }, trace)
      .catch(() => {}); // the subscribers have been told
    return result;
  }

  /** The handler has failed: the job is given to somebody again. */
  failed(error: unknown): void {
    this.#judge('again', { error });
  }

  /** The consumer has left, or is lost: the job is given to somebody else. */
  lost(error: unknown): void {
    this.#end?.({ error });
  }

  #judge(verdict: Verdict['verdict'], failure?: { readonly error: unknown }): void {
    if (this.#judged) return;
    this.#judged = true;
    this.#verdicts.push({ tag: this.#tag, verdict });
    if (this.#trace === undefined) return;
    this.#trace.verdict = verdict;
    this.#end?.(failure);
  }
}

function nonsense(cause?: unknown): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_PROTOCOL', 'the broker gave what is no work', { cause });
}
