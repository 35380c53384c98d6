// Longer than 300 lines because it is all that can become of a call that is answered: what its handler gets, and each way in which it ends.
import type { Codec } from '../codec/codec.js';
import type { Connection } from '../contract/connection.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import type { WaitingSend } from '../contract/send-queue.js';
import type { Assembly } from './assembly.js';
import { isAsyncIterable, isThenable } from './body.js';
import type { Transfer } from './bulk-lane.js';
import { writeError } from './error-frame.js';
import { giveBackWriter, takeWriter } from './frame-writer.js';
import type { InboundStream } from './inbound-stream.js';
import type { IncomingCall } from './incoming.js';
import { type HandledCall, invoke } from './invoke.js';
import { type Metadata, writeMetadata } from './metadata.js';
import { leaveUnread, OutboundStream, type SentItem } from './outbound-stream.js';
import type { Outgoing, Sender } from './outgoing.js';
import { FLAG, FRAME } from './protocol.js';
import type { Method, ServerCore } from './server-core.js';
import { clearWheelTimer, setWheelTimer, type WheelTimer } from './timer-wheel.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const { metadata: METADATA } = FLAG;
const { result: RESULT } = FRAME;

const NO_METADATA: Metadata = Object.freeze(Object.create(null));

/** The side that answers calls, as one of them sees it. */
export interface AnsweringSide {
  readonly outgoing: Outgoing;
  readonly server: ServerCore;
  /** From now on `call` can be cancelled, and a server that drains waits for it. */
  track(call: ServerCall): void;
  untrack(call: ServerCall): void;
}

/**
 * A call at the side that answers it, and what its handler gets to know of it. One whose handler answers at once leaves no
 * trace: it is entered nowhere, and has no timer.
 */
export class ServerCall implements HandledCall, IncomingCall, Sender {
  readonly id: number;
  inbound: InboundStream | undefined = undefined;
  assembly: Assembly | undefined = undefined;
  itemCost: number | undefined = undefined;
  transfer: Transfer | undefined = undefined;
  waiting: WaitingSend[] | undefined = undefined;
  answerMetadata: Metadata | undefined = undefined;
  onOver: ((error?: unknown) => void) | undefined = undefined;

  readonly #callee: AnsweringSide;
  readonly #method: Method;
  readonly #wantsStream: boolean;
  readonly #metadata: Metadata | undefined;
  /** When the caller stops waiting, by `performance.now()`. */
  readonly #deadline: number | undefined;
  #pump: OutboundStream | undefined = undefined;
  #controller: AbortController | undefined = undefined;
  #timer: WheelTimer | undefined = undefined;
  #tracked = false;
  #over = false;
  #endedBy: unknown = undefined;

  constructor(
    callee: AnsweringSide,
    method: Method,
    id: number,
    wantsStream: boolean,
    timeoutMs: number | undefined,
    metadata: Metadata | undefined,
  ) {
    this.#callee = callee;
    this.#method = method;
    this.id = id;
    this.#wantsStream = wantsStream;
    this.#metadata = metadata;
    this.#deadline = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
  }

  get method(): string {
    return this.#method.name;
  }

  get connection(): Connection {
    return this.#callee.outgoing.connection;
  }

  get metadata(): Metadata {
    return this.#metadata ?? NO_METADATA;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#endedBy !== undefined) this.#controller.abort(this.#endedBy);
    }
    return this.#controller.signal;
  }

  get remainingMs(): number | undefined {
    return this.#deadline === undefined ? undefined : Math.max(0, this.#deadline - performance.now());
  }

  get incomingStream(): InboundStream | undefined {
    return this.inbound;
  }

  get codec(): Codec {
    return this.#callee.server.settings.codec;
  }

  refuse(error: unknown): void {
    this.fail(error);
  }

  /** The caller has its answer, or does not wait for it any more: nothing that comes for the call counts. */
  get over(): boolean {
    return this.#over;
  }

  get wantsStream(): boolean {
    return this.#wantsStream;
  }

  /** From now on the call can be cancelled, and a server that drains waits for it. */
  track(): void {
    if (!this.#over) this.#enter();
  }

  #enter(): void {
    if (this.#tracked) return;
    this.#tracked = true;
    this.#callee.track(this);
    const { remainingMs } = this;
    if (remainingMs === undefined) return;
    this.#timer = setWheelTimer(remainingMs, () => {
      this.giveUp(
        new VerbmqError('ERR_VERBMQ_RPC_DEADLINE', `${this.method} was not done before its deadline`),
      );
    });
  }

  run(body: unknown): void {
    if (this.#over) return;
    try {
      const result = invoke(this.#callee.server.settings, this.#method.handler, body, this);
      if (isThenable(result)) this.#await(result);
      else this.#settle(result);
    } catch (error) {
      this.fail(error, true);
    }
  }

  #await(result: PromiseLike<unknown>): void {
    this.track();
    // A thenable of another make is wrapped, so that it settles once.
    Promise.resolve(result).then(
      (value) => this.#settleLater(value),
      (error) => this.fail(error, true),
    );
  }

  #settleLater(result: unknown): void {
    try {
      this.#settle(result);
    } catch (error) {
      this.fail(error, true);
    }
  }

  #settle(result: unknown): void {
    if (this.#over) {
      if (isAsyncIterable(result)) leaveUnread(result);
      return;
    }
    if (isAsyncIterable(result)) {
      if (this.#wantsStream) void this.#stream(result);
      else {
        leaveUnread(result);
        this.fail(mismatch(`${this.method} answers with a stream: call its stream()`));
      }
    } else if (this.#wantsStream) {
      this.fail(mismatch(`${this.method} gives one answer: call it without stream()`));
    } else {
      this.#answer(result);
    }
  }

  async #stream(source: AsyncIterable<unknown>): Promise<void> {
    this.track();
    try {
      if (await this.#outbound().run(source)) this.#answer(undefined);
    } catch (error) {
      this.#notSent(error);
    }
  }

  /** What sends the stream of this call, and keeps what the caller grants before the handler has returned one. */
  #outbound(): OutboundStream {
    this.#pump ??= new OutboundStream(this.#callee.outgoing.gate, (value) => this.#sendItem(value));
    return this.#pump;
  }

  #sendItem(value: unknown): SentItem {
    const writer = takeWriter();
    try {
      writer.start(FRAME.itemToCaller, 0, this.id);
      return this.#callee.outgoing.sendItem(writer, value, this.#callee.server.settings.codec, this);
    } finally {
      giveBackWriter(writer);
    }
  }

  #answer(value: unknown): void {
    if (this.#over) return;
    const { server, outgoing } = this.#callee;
    const writer = takeWriter();
    let sent: true | Promise<void>;
    try {
      writer.start(RESULT, this.answerMetadata === undefined ? 0 : METADATA, this.id);
      if (this.answerMetadata !== undefined) writeMetadata(writer, this.answerMetadata);
      sent = outgoing.send(writer, value, server.settings.codec, this);
    } catch (error) {
      this.answerMetadata = undefined;
      this.#notSent(error);
      return;
    } finally {
      giveBackWriter(writer);
    }
    server.handled++;
    this.#finish(sent, undefined);
  }

  /** What cannot be sent fails this call alone. On a connection that is ending nobody waits, and no handler is to blame. */
  #notSent(error: unknown): void {
    if (this.connection.state !== 'open' && isVerbmqError(error, 'ERR_VERBMQ_CLOSED')) this.cancel(error);
    else this.fail(error, !isVerbmqError(error, 'ERR_VERBMQ_ENCODE'));
  }

  /**
   * Ends the call with an error that the caller gets.
   * @param thrown by the handler: then it is described as the program chose.
   */
  fail(error: unknown, thrown = false): void {
    if (this.#over) return;
    const { server, outgoing } = this.#callee;
    server.failed++;
    if (thrown) server.settings.logger.warn({ method: this.method, err: error }, 'a handler failed');
    outgoing.cancelTransfer(this);
    const sent = this.#sendError(error, thrown);
    const reason = error === undefined ? new Error(`${this.method} failed with undefined`) : error;
    this.#abort(reason);
    this.#finish(sent, reason);
  }

  #sendError(error: unknown, thrown: boolean): true | Promise<void> {
    const { server, outgoing } = this.#callee;
    const writer = takeWriter();
    try {
      return writeError(writer, this, error, thrown, server.settings, outgoing);
    } catch (failure) {
      // On a connection that is ending nobody can be told. On any other nobody must be left to wait.
      if (!isVerbmqError(failure, 'ERR_VERBMQ_CLOSED'))
        outgoing.connection.abort('rpc: an error cannot be sent');
      return true;
    } finally {
      giveBackWriter(writer);
    }
  }

  /** Ends the call, whether it runs or its answer is on its way, with an error that the caller gets. */
  giveUp(error: VerbmqError): void {
    if (!this.#over) {
      this.fail(error);
    } else if (this.#callee.outgoing.cancelTransfer(this)) {
      this.#tell(error);
    }
  }

  /** As `giveUp`, without a word to the caller, who is gone or does not wait any more. */
  cancel(error: unknown): void {
    this.#callee.outgoing.withdraw(this);
    this.#callee.outgoing.cancelTransfer(this);
    if (this.#over) return;
    this.#abort(error);
    this.#finish(true, error);
  }

  /** @throws FrameError for more than anybody needs. */
  grant(bytes: number): void {
    if (this.#wantsStream && !this.#over) this.#outbound().grant(bytes);
  }

  #abort(error: unknown): void {
    this.#over = true;
    this.#endedBy = error;
    this.#controller?.abort(error);
  }

  /** The call is over for its handler. It is forgotten when its last frame has left, for which it has as long as it had before. */
  #finish(sent: true | Promise<void>, error: unknown): void {
    this.#over = true;
    if (this.#pump !== undefined) this.#pump.stop();
    if (this.assembly !== undefined) {
      this.assembly.release();
      this.assembly = undefined;
    }
    if (this.inbound !== undefined) {
      this.inbound.fail(
        error ?? new VerbmqError('ERR_VERBMQ_CANCELLED', `${this.method} has answered already`),
      );
    }
    if (this.onOver !== undefined) this.onOver(error);
    if (sent === true) {
      if (this.#tracked) this.#leave();
      return;
    }
    this.#leaveWhen(sent);
  }

  // Its closures stand apart from what runs for each call: see "Code that runs for each message" in CONTRIBUTING.md.
  #leaveWhen(sent: Promise<void>): void {
    this.#enter();
    sent.then(
      () => this.#leave(),
      (failure: unknown) => {
        // The rest of an answer of which the caller has the beginning. When the connection has ended, nobody can be told.
        const { server, outgoing } = this.#callee;
        outgoing.cancelTransfer(this);
        if (!isVerbmqError(failure)) {
          server.settings.logger.warn({ method: this.method, err: failure }, 'an answer could not be sent');
        }
        this.#tell(failure);
        this.#leave();
      },
    );
  }

  /** Lets a caller know of an error behind the end of the call, where it still waits for the answer. */
  #tell(error: unknown): void {
    const sent = this.#sendError(error, false);
    if (sent !== true) sent.catch(() => {}); // the connection has ended: nobody is there to be told
  }

  #leave(): void {
    if (this.#timer !== undefined) clearWheelTimer(this.#timer);
    this.#callee.untrack(this);
  }
}

function mismatch(message: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_RPC_MISMATCH', message);
}
