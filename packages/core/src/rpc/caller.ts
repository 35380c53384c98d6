// Longer than 300 lines because it is all that can become of a call: how it begins, what may arrive for it, and each way in which it ends.
import type { Codec } from '../codec/codec.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import { checkFunction, checkOptions, checkSignal } from '../contract/options.js';
import { isAsyncIterable, readBody } from './body.js';
import { CallTable } from './call-table.js';
import { FrameError, type FrameReader } from './frame-reader.js';
import { giveBackWriter, takeWriter } from './frame-writer.js';
import { InboundStream } from './inbound-stream.js';
import { announce, receiveItem, receivePiece } from './incoming.js';
import { readMetadata, writeMetadata } from './metadata.js';
import { OutboundStream, type SentItem } from './outbound-stream.js';
import type { Outgoing } from './outgoing.js';
import { type CallerSettings, type CallingSide, PendingCall } from './pending-call.js';
import { FLAG, FRAME, MAX_ERROR_TEXT_BYTES, MAX_METHOD_BYTES, MAX_METHODS, RPC_VERSION } from './protocol.js';
import { cancelledError, checkTimeout, closedError, codecError, errorFromFrame } from './rpc-errors.js';
import type { CallOptions } from './service.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const {
  named: NAMED,
  deadline: DEADLINE,
  metadata: METADATA,
  streamIn: STREAM_IN,
  streamOut: STREAM_OUT,
  partial: PARTIAL,
} = FLAG;
const { call: CALL, methods: METHODS, result: RESULT } = FRAME;

/** The calling side of a session: the calls that wait for their answers. */
export class Caller implements CallingSide {
  readonly #outgoing: Outgoing;
  readonly #pending = new CallTable<PendingCall>();
  /** What the peer serves, and the number of each method. */
  readonly #methods = new Map<string, number>();
  /** How the peer encodes, if it has told; and who was found to do the same. */
  #peerCodec: string | undefined;
  #sameCodec: Codec | undefined;
  /** The one that was called last, and its number if the peer has told it: most calls are of the same method as those before. */
  #lastMethod = '';
  #lastNumber: number | undefined;
  #lastId = 0;
  #lateAnswers = 0;
  #beginning = false;

  constructor(outgoing: Outgoing) {
    this.#outgoing = outgoing;
  }

  get pendingCalls(): number {
    return this.#pending.size;
  }

  /** Frames for calls that nobody waited for any more. */
  get lateAnswers(): number {
    return this.#lateAnswers;
  }

  unary(
    settings: CallerSettings,
    method: string,
    body: unknown,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#begin(new PendingCall(this, settings, method, resolve, reject), body, options);
    });
  }

  /** @param over is called once, when the call is over, with the error that ended it if one did. */
  stream(
    settings: CallerSettings,
    method: string,
    body: unknown,
    options: CallOptions | undefined,
    over: (failure?: { readonly error: unknown }) => void,
  ): InboundStream {
    const call: PendingCall = new PendingCall(
      this,
      settings,
      method,
      () => {
        over();
        stream.end();
      },
      (error) => {
        over({ error });
        stream.fail(error);
      },
    );
    const stream = new InboundStream(settings.streamWindowBytes, {
      grant: (bytes) => this.#sendCredit(call, bytes),
      abandon: (reason) => call.abandon(reason),
    });
    call.stream = stream;
    try {
      this.#begin(call, body, options);
    } catch (error) {
      call.reject(error); // who reads the stream gets it
    }
    return stream;
  }

  #begin(call: PendingCall, body: unknown, options: CallOptions | undefined): void {
    const outgoing = this.#outgoing;
    const { settings } = call;
    if (this.#beginning) {
      this.#beginLater(call, body, options);
      return;
    }
    if (outgoing.end !== undefined) throw closedError(outgoing.end);
    if (settings.codec !== this.#sameCodec) this.#compare(settings.codec);
    if (this.#pending.size >= settings.maxPendingCalls) {
      throw new VerbmqError(
        'ERR_VERBMQ_OVERLOADED',
        `${this.#pending.size} calls wait for their answers on this connection already (maxPendingCalls)`,
        { reason: 'pending-calls' },
      );
    }
    if (options !== undefined) checkCallOptions(options);
    const signal = options?.signal;
    if (signal?.aborted) throw cancelledError(call.method, signal.reason);
    const timeoutMs = options?.timeoutMs ?? settings.timeoutMs;
    if (timeoutMs !== undefined) checkTimeout(timeoutMs);
    call.onMetadata = options?.onMetadata;
    const streamIn = isAsyncIterable(body);
    const id = ++this.#lastId;
    call.id = id;

    const writer = takeWriter();
    let sent: true | Promise<void>;
    this.#beginning = true;
    try {
      const number = this.#numberOf(call.method);
      const flags =
        (number === undefined ? NAMED : 0) |
        (timeoutMs === undefined ? 0 : DEADLINE) |
        (options?.metadata === undefined ? 0 : METADATA) |
        (streamIn ? STREAM_IN : 0) |
        (call.stream === undefined ? 0 : STREAM_OUT);
      writer.start(CALL, flags, id);
      if (number === undefined) writer.text(call.method).text(settings.codec.name);
      else writer.number(number);
      const deadlineAt = writer.length;
      if (timeoutMs !== undefined) writer.number(Math.max(0, Math.ceil(timeoutMs)));
      if (options?.metadata !== undefined) writeMetadata(writer, options.metadata);
      sent = outgoing.send(writer, streamIn ? undefined : body, settings.codec, call);
      const head = call.waiting?.[0];
      if (head !== undefined) {
        call.head = head;
        if (timeoutMs !== undefined) call.keepDeadline(head, deadlineAt, timeoutMs);
      }
    } finally {
      this.#beginning = false;
      giveBackWriter(writer);
    }
    this.#pending.add(call);
    if (sent === true) call.left = true;
    else this.#awaitLeaving(call, sent);
    if (timeoutMs !== undefined) call.setDeadline(timeoutMs);
    if (signal !== undefined) call.watch(signal);
    if (streamIn && this.#pending.get(id) !== undefined) void this.#pump(call, body);
    if (call.stream !== undefined) call.stream.open();
  }

  /** @throws VerbmqError `ERR_VERBMQ_DECODE` */
  #compare(codec: Codec): void {
    if (this.#peerCodec === undefined) return; // calls tell the name of theirs as long
    if (codec.name !== this.#peerCodec) throw codecError(codec.name, this.#peerCodec);
    this.#sameCodec = codec;
  }

  #numberOf(method: string): number | undefined {
    if (method !== this.#lastMethod || this.#lastNumber === undefined) {
      this.#lastMethod = method;
      this.#lastNumber = this.#methods.get(method);
    }
    return this.#lastNumber;
  }

  // Closures stand apart from what runs for each call: see "Code that runs for each message" in CONTRIBUTING.md.

  /** Made by a `toJSON` while the body of another call is encoded, whose number is given, but not used yet. */
  #beginLater(call: PendingCall, body: unknown, options: CallOptions | undefined): void {
    queueMicrotask(() => {
      try {
        this.#begin(call, body, options);
      } catch (error) {
        call.reject(error);
      }
    });
  }

  #awaitLeaving(call: PendingCall, sent: Promise<void>): void {
    sent.then(
      () => {
        call.left = true;
      },
      // The rest of a body whose beginning may be there: the peer must not wait for it.
      (error: unknown) => this.cancel(call, error),
    );
  }

  async #pump(call: PendingCall, source: AsyncIterable<unknown>): Promise<void> {
    try {
      call.pump = new OutboundStream(this.#outgoing.gate, (value) => this.#sendItem(call, value));
      if (await call.pump.run(source)) this.#sendSimple(FRAME.end, call);
    } catch (error) {
      // The source of the stream failed, or an item could not be sent: the call cannot come to its end.
      this.cancel(call, error);
    }
  }

  #sendItem(call: PendingCall, value: unknown): SentItem {
    const writer = takeWriter();
    try {
      writer.start(FRAME.item, 0, call.id);
      return this.#outgoing.sendItem(writer, value, call.settings.codec, call);
    } finally {
      giveBackWriter(writer);
      // It ended while the item was encoded: nobody waits for that.
      if (this.#pending.get(call.id) === undefined) this.#outgoing.cancelTransfer(call);
    }
  }

  #sendCredit(call: PendingCall, bytes: number): void {
    this.#sendSimple(FRAME.credit, call, bytes);
  }

  /** A small frame for a call that has not ended. Where the connection is ending, so does the call. */
  #sendSimple(type: number, call: PendingCall, number?: number): void {
    if (this.#pending.get(call.id) === undefined) return;
    this.#outgoing.sendSimple(type, call.id, number, call);
  }

  /** Ends a call from this side, and tells the peer, unless that has not heard of the call: then it never will. */
  cancel(call: PendingCall, error: unknown): void {
    if (call.head?.waits !== true || !this.#outgoing.withdraw(call)) this.#sendSimple(FRAME.cancel, call);
    this.fail(call, error);
  }

  fail(call: PendingCall, error: unknown): void {
    if (this.#remove(call)) call.reject(error);
  }

  /** Forgets a call. `false`: it was over already. */
  #remove(call: PendingCall): boolean {
    if (!this.#pending.delete(call.id)) return false;
    call.release();
    this.#outgoing.cancelTransfer(call);
    return true;
  }

  end(error: VerbmqError): void {
    const unknown = error.withUnknownOutcome();
    const known = error.withKnownOutcome();
    for (const call of this.#pending.values()) this.fail(call, call.left ? unknown : known);
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /** @throws FrameError */
  receive(reader: FrameReader): void {
    if (reader.type === METHODS) {
      this.#learnMethods(reader);
      return;
    }
    const call = this.#pending.get(reader.id);
    if (call === undefined) {
      // One that was cancelled meanwhile; or one that never was.
      if (reader.id > this.#lastId || reader.id === 0)
        throw new FrameError('an answer to a call that nobody made');
      this.#lateAnswers++;
      return;
    }
    switch (reader.type) {
      case RESULT:
        this.#result(call, reader);
        break;
      case FRAME.error:
        this.#error(call, reader);
        break;
      case FRAME.itemToCaller:
        receiveItem(call, reader, call.settings.budget);
        break;
      case FRAME.pieceToCaller:
        this.#piece(call, reader);
        break;
      case FRAME.creditToCaller: {
        const bytes = reader.number();
        reader.end();
        call.pump?.grant(bytes);
        break;
      }
      default:
        throw new FrameError(`the frame type ${reader.type}`);
    }
  }

  #result(call: PendingCall, reader: FrameReader): void {
    if (call.assembly !== undefined) throw new FrameError('an answer within an item');
    if (reader.has(METADATA)) call.answerMetadata = readMetadata(reader);
    if (reader.has(PARTIAL)) {
      announce(call, reader, call.settings.budget);
      return;
    }
    this.#settle(call, reader);
  }

  #piece(call: PendingCall, reader: FrameReader): void {
    receivePiece(call, reader, (read) => this.#settle(call, read));
  }

  /** @param body the frame that it is the rest of, or what reads a body that came in pieces. */
  #settle(call: PendingCall, body: FrameReader | (() => unknown)): void {
    if (!this.#remove(call)) return;
    let value: unknown;
    try {
      value = typeof body === 'function' ? body() : readBody(body, call.settings.codec);
    } catch (error) {
      call.reject(isVerbmqError(error) ? error.withUnknownOutcome() : error);
      return;
    }
    call.resolve(value);
  }

  #error(call: PendingCall, reader: FrameReader): void {
    if (reader.has(METADATA)) call.answerMetadata = readMetadata(reader);
    const code = reader.text(MAX_ERROR_TEXT_BYTES);
    const reason = reader.text(MAX_ERROR_TEXT_BYTES);
    const message = reader.text(MAX_ERROR_TEXT_BYTES);
    let details: unknown;
    try {
      details = readBody(reader, call.settings.codec);
    } catch (error) {
      details = error; // an error is still an error when its details cannot be read
    }
    const streamed = call.pump !== undefined;
    const thrown = reader.has(FLAG.thrown);
    this.fail(call, errorFromFrame(call.method, streamed, thrown, code, reason, message, details));
  }

  #learnMethods(reader: FrameReader): void {
    if (reader.flags !== RPC_VERSION) throw new FrameError(`version ${reader.flags} of rpc`);
    if (reader.id !== this.#methods.size) throw new FrameError('methods that do not follow those before');
    const codec = reader.text(MAX_METHOD_BYTES);
    if (this.#peerCodec !== undefined && codec !== this.#peerCodec)
      throw new FrameError('methods of another codec');
    this.#peerCodec = codec;
    while (reader.remaining > 0) {
      if (this.#methods.size >= MAX_METHODS) throw new FrameError('too many methods');
      const name = reader.text(MAX_METHOD_BYTES);
      if (this.#methods.has(name)) throw new FrameError('a method that was told before');
      this.#methods.set(name, this.#methods.size);
    }
  }
}

/** @throws TypeError that names the option; the metadata, and what is out of range, are looked at where they are used. */
function checkCallOptions(options: CallOptions): void {
  checkOptions('the options of a call', options);
  checkSignal(options.signal);
  checkFunction('onMetadata', options.onMetadata);
}
