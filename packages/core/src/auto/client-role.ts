import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import type { ConnectOptions, ProbeResult, Transport } from '../contract/transport.js';
import type { AutoConnection } from './auto-connection.js';
import type { AutoRole } from './auto-role.js';
import { Backoff } from './backoff.js';
import { requiredPathBroke } from './end-reason.js';
import { FastFailure, type Grant, hostOf, openFast, parseGrant, reasonOf } from './fast-client.js';
import { Fields } from './fields.js';
import { FrameKind, jsonFrame, protocolError } from './frames.js';
import type { ResolvedAutoOptions } from './options.js';
import { isDecision, type PathReason } from './path-info.js';
import { Resumer } from './resumer.js';
import { BASE, type PathNumber } from './session.js';

export interface ClientRoleInit {
  readonly options: ResolvedAutoOptions;
  /** The name of the session. */
  readonly session: string;
  /** Opens a base connection and resumes the session on it. */
  readonly reconnect: (signal: AbortSignal) => Promise<Connection>;
  /** Whether no data may take the base connection. */
  readonly requiresFast: boolean;
  /** `undefined` where it is not to be used. */
  readonly fast: Transport | undefined;
  /** Whether it could be used when the connection was made. If not, it is probed before each attempt until it can. */
  readonly fastAvailable: boolean;
  /** Finds out whether it can be used now. */
  readonly probeFast: () => Promise<ProbeResult>;
  readonly fastOptions: ConnectOptions;
  /** The longest frame of this session, in bytes. */
  readonly frameBytes: number;
  readonly attemptTimeoutMs: number;
}

/** The side that connected: it resumes the session, and it is the one that asks for the fast path. */
export class ClientRole implements AutoRole {
  readonly #init: ClientRoleInit;
  readonly #connection: AutoConnection;
  readonly #resumer: Resumer;
  readonly #retry: Backoff;
  #number: PathNumber = BASE;
  /** The number that the peer has been asked for, until it answers: other answers, and a second one, mean nothing. */
  #asked: PathNumber | undefined;
  #attempt: AbortController | undefined;
  #attemptTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #available: boolean;
  /** When the fast path was taken last. */
  #usedSince: number | undefined;
  #over = false;
  /** Who waits for the first attempt to come to something. */
  #firstOutcome: ((failure: FastFailure | undefined) => void) | undefined;

  constructor(connection: AutoConnection, init: ClientRoleInit) {
    this.#connection = connection;
    this.#init = init;
    const { options } = init;
    this.#available = init.fastAvailable;
    this.#retry = new Backoff(options.minFastRetryMs, options.maxFastRetryMs);
    this.#resumer = new Resumer(options.resumeWindowMs, options.maxResumeDelayMs, init.attemptTimeoutMs, {
      reconnect: init.reconnect,
      resumed: (base) => connection.resumeOn(base),
      failed: (error) => connection.fail(error),
    });
  }

  /** Resolves when the fast path is used. @throws FastFailure when the first attempt fails. */
  firstFast(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#firstOutcome = (failure) => (failure === undefined ? resolve() : reject(failure));
    });
  }

  /** Asks for a fast path, off the way of the messages. */
  askForFast(): void {
    if (this.#over || this.#init.fast === undefined || this.#attempt !== undefined) return;
    // It is asked for on the base connection, and when both sides have left the last one: until then its end is not told.
    if (!this.#connection.baseUp || this.#connection.path.fast) {
      this.askForFastLater();
      return;
    }
    this.#attempt = new AbortController();
    this.#attemptTimer = setTimeout(() => {
      const failure = new FastFailure(
        'probe-failed',
        `it took longer than ${this.#init.attemptTimeoutMs} ms`,
      );
      if (!this.#connection.dropFast(failure.reason, failure.message)) this.#failed(failure);
    }, this.#init.attemptTimeoutMs);
    this.#attemptTimer.unref();
    if (this.#available) this.#request();
    else void this.#requestIfAvailable(this.#attempt.signal);
  }

  /** The same after a pause: it cannot be had yet. */
  askForFastLater(): void {
    if (this.#over || this.#init.fast === undefined) return;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.askForFast(), this.#retry.next());
    this.#retryTimer.unref();
  }

  async #requestIfAvailable(signal: AbortSignal): Promise<void> {
    const probe = await this.#init.probeFast();
    if (signal.aborted) return;
    if (probe.available) {
      this.#available = true;
      this.#request();
    } else this.#failed(new FastFailure(probe.code, probe.reason));
  }

  #request(): void {
    this.#connection.explain('negotiating', undefined, null);
    this.#asked = ++this.#number;
    this.#connection.sendControl(jsonFrame(FrameKind.FAST_REQUEST, { number: this.#number }));
  }

  /** An attempt is negotiated on the base connection, so it ends with it. */
  baseLost(error: VerbmqError): void {
    if (this.#attempt !== undefined) {
      this.#settleAttempt();
      if (!this.#connection.dropFast('negotiating')) this.askForFastLater();
    }
    this.#resumer.start(error);
  }

  negotiation(kind: number, frame: Uint8Array): void {
    if (kind === FrameKind.FAST_GRANT) {
      const grant = parseGrant(frame, this.#init.session, hostOf(this.#connection.remoteAddress));
      if (this.#isAnswer(grant.number)) void this.#granted(grant);
    } else if (kind === FrameKind.FAST_DECLINE) this.#declined(frame);
    else throw protocolError(`a frame of kind ${kind} came to the side that connected`);
  }

  moved(path: PathNumber): void {
    if (path === BASE) return;
    this.#settleAttempt();
    this.#usedSince = performance.now();
    this.#settleFirst(undefined);
  }

  /** It is tried again after a pause, which grows unless the path had lasted: a path that flaps is left alone. */
  fastLost(): void {
    if (this.#init.requiresFast && this.#usedSince !== undefined) {
      this.#connection.fail(requiredPathBroke());
      return;
    }
    const lastedMs = this.#usedSince === undefined ? 0 : performance.now() - this.#usedSince;
    this.#usedSince = undefined;
    if (lastedMs > this.#init.options.maxFastRetryMs) this.#retry.reset();
    this.#settleAttempt();
    this.#settleFirst(new FastFailure('broken', 'the fast path broke before it was used'));
    this.askForFastLater();
  }

  ended(): void {
    this.#over = true;
    this.#resumer.stop();
    this.#settleAttempt();
    clearTimeout(this.#retryTimer);
    this.#settleFirst(new FastFailure('broken', 'the connection ended before'));
  }

  #declined(frame: Uint8Array): void {
    const fields = Fields.ofFrame(frame);
    const number = fields.whole('number', 1, 2 ** 32 - 1);
    const reason = fields.text('reason');
    const message = fields.optionalText('message') ?? 'the peer declined';
    if (this.#isAnswer(number)) this.#failed(new FastFailure('peer-declined', message), reason);
  }

  #isAnswer(number: PathNumber): boolean {
    if (number !== this.#asked) return false;
    this.#asked = undefined;
    return true;
  }

  async #granted(grant: Grant): Promise<void> {
    const { fast, fastOptions, frameBytes } = this.#init;
    const attempt = this.#attempt;
    const connection = this.#connection;
    if (attempt === undefined || fast === undefined) return;
    try {
      const { fastTimeoutMs } = this.#init.options;
      const opened = await openFast(fast, grant, fastOptions, frameBytes, fastTimeoutMs, attempt.signal);
      if (attempt.signal.aborted) {
        opened.abort('the attempt was given up');
        return;
      }
      connection.adoptFast(grant.number, opened);
      connection.session.propose(grant.number);
    } catch (error) {
      if (attempt.signal.aborted) return;
      this.#failed(
        error instanceof FastFailure ? error : new FastFailure(reasonOf(error), String(error), error),
      );
    }
  }

  #failed(failure: FastFailure, peerReason?: PathReason): void {
    this.#settleAttempt();
    this.#connection.explain(failure.reason, failure.message, peerReason);
    // The peer knows its own reason.
    if (peerReason === undefined) {
      const { reason } = failure;
      this.#connection.sendControl(jsonFrame(FrameKind.FAST_FAILED, { number: this.#number, reason }));
    }
    this.#settleFirst(failure);
    if (!isDecision(peerReason)) this.askForFastLater();
  }

  #settleFirst(failure: FastFailure | undefined): void {
    this.#firstOutcome?.(failure);
    this.#firstOutcome = undefined;
  }

  #settleAttempt(): void {
    clearTimeout(this.#attemptTimer);
    const attempt = this.#attempt;
    this.#attempt = undefined;
    this.#asked = undefined;
    attempt?.abort(new VerbmqError('ERR_VERBMQ_CANCELLED', 'the attempt is over'));
  }
}
