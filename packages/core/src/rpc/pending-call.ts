import type { Codec } from '../codec/codec.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import type { WaitingSend } from '../contract/send-queue.js';
import { type Abortable, unwatchSignal, watchSignal } from './abort-hub.js';
import type { Assembly, AssemblyBudget } from './assembly.js';
import type { Transfer } from './bulk-lane.js';
import { replaceNumber } from './frame-writer.js';
import type { InboundStream } from './inbound-stream.js';
import type { IncomingCall } from './incoming.js';
import type { Metadata } from './metadata.js';
import type { OutboundStream } from './outbound-stream.js';
import type { Sender } from './outgoing.js';
import { cancelledError } from './rpc-errors.js';
import { clearWheelTimer, setWheelTimer, type WheelTimer } from './timer-wheel.js';

/** What a client has chosen. */
export interface CallerSettings {
  readonly codec: Codec;
  readonly timeoutMs: number | undefined;
  readonly maxPendingCalls: number;
  readonly streamWindowBytes: number;
  readonly budget: AssemblyBudget;
}

/** The side that makes calls, as one of them sees it. */
export interface CallingSide {
  /** Ends `call` with `error`, and tells the peer. */
  cancel(call: PendingCall, error: unknown): void;
}

/** A call that waits for its answer, at the side that made it. */
export class PendingCall implements Abortable, IncomingCall, Sender {
  id = 0;
  /** The whole request has left: from then on nobody knows what became of it until the answer comes. */
  left = false;
  stream: InboundStream | undefined = undefined;
  pump: OutboundStream | undefined = undefined;
  transfer: Transfer | undefined = undefined;
  waiting: WaitingSend[] | undefined = undefined;
  /** The first frame of the request, where it had to wait. */
  head: WaitingSend | undefined = undefined;
  assembly: Assembly | undefined = undefined;
  itemCost: number | undefined = undefined;
  onMetadata: ((metadata: Metadata) => void) | undefined = undefined;
  answerMetadata: Metadata | undefined = undefined;
  #timer: WheelTimer | undefined = undefined;
  #signal: AbortSignal | undefined = undefined;
  #resolve: (value: unknown) => void;
  #reject: (error: unknown) => void;

  readonly caller: CallingSide;
  readonly settings: CallerSettings;
  readonly method: string;

  constructor(
    caller: CallingSide,
    settings: CallerSettings,
    method: string,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ) {
    this.caller = caller;
    this.settings = settings;
    this.method = method;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get incomingStream(): InboundStream | undefined {
    return this.stream;
  }

  get codec(): Codec {
    return this.settings.codec;
  }

  /** What the peer answered cannot be read: whatever the handler did, it did. */
  refuse(error: unknown): void {
    this.caller.cancel(this, isVerbmqError(error) ? error.withUnknownOutcome() : error);
  }

  setDeadline(timeoutMs: number): void {
    this.#timer = setWheelTimer(timeoutMs, () => {
      this.caller.cancel(
        this,
        new VerbmqError('ERR_VERBMQ_RPC_DEADLINE', `${this.method} took longer than ${timeoutMs} ms`, {
          outcome: this.left ? 'unknown' : undefined,
        }),
      );
    });
  }

  /** The request waits in `head`, where its time stands at `at`: it says what is left of that when it leaves. */
  keepDeadline(head: WaitingSend, at: number, timeoutMs: number): void {
    const deadline = performance.now() + timeoutMs;
    head.onSubmit = () => {
      const leftMs = Math.max(0, Math.min(timeoutMs, deadline - performance.now()));
      replaceNumber(head.data, at, Math.ceil(leftMs));
    };
  }

  watch(signal: AbortSignal): void {
    if (signal.aborted) {
      this.onAbort(signal.reason); // it fired while the body was encoded
      return;
    }
    this.#signal = signal;
    watchSignal(signal, this);
  }

  onAbort(reason: unknown): void {
    const error = cancelledError(this.method, reason);
    this.stream?.discard(); // who cancels wants nothing more
    this.caller.cancel(this, this.left ? error.withUnknownOutcome() : error);
  }

  /** The reader of the answers has left. */
  abandon(reason: unknown): void {
    this.caller.cancel(this, cancelledError(this.method, reason));
  }

  resolve(value: unknown): void {
    this.#tellMetadata();
    this.#resolve(value);
  }

  reject(error: unknown): void {
    this.#tellMetadata();
    this.#reject(error);
  }

  /** Gives back everything that the call holds. */
  release(): void {
    if (this.#timer !== undefined) clearWheelTimer(this.#timer);
    if (this.#signal !== undefined) unwatchSignal(this.#signal, this);
    if (this.pump !== undefined) this.pump.stop();
    if (this.assembly !== undefined) {
      this.assembly.release();
      this.assembly = undefined;
    }
  }

  #tellMetadata(): void {
    if (this.onMetadata === undefined || this.answerMetadata === undefined) return;
    try {
      this.onMetadata(this.answerMetadata);
    } catch (error) {
      // The program's own fault, as in any event listener; the call itself is settled all the same.
      process.nextTick(() => {
        throw error;
      });
    }
  }
}
