import { type ErrorCode, isVerbmqError, VerbmqError } from '../contract/errors.js';
import { AssemblyBudget } from './assembly.js';
import { readBody } from './body.js';
import { CallTable } from './call-table.js';
import { writeTexts } from './error-frame.js';
import { FrameError, type FrameReader } from './frame-reader.js';
import { giveBackWriter, takeWriter } from './frame-writer.js';
import { InboundStream } from './inbound-stream.js';
import { announce, receiveItem, receivePiece } from './incoming.js';
import { DEFAULT_BACKLOG_TIMEOUT_MS, DEFAULT_MAX_BACKLOG_BYTES } from './limits.js';
import { readMetadata } from './metadata.js';
import type { Outgoing } from './outgoing.js';
import { FLAG, FRAME, HEADER_BYTES, MAX_METHOD_BYTES, RPC_VERSION } from './protocol.js';
import { codecError, MAX_TIMEOUT_MS } from './rpc-errors.js';
import { type AnsweringSide, ServerCall } from './server-call.js';
import type { Method, ServerCore } from './server-core.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const {
  named: NAMED,
  deadline: DEADLINE,
  metadata: METADATA,
  streamIn: STREAM_IN,
  streamOut: STREAM_OUT,
  partial: PARTIAL,
} = FLAG;
const { call: CALL } = FRAME;

/** A caller is not sent away for answers that it does not read before it was refused more often than this. */
const REFUSALS_AT_LEAST = 10;

/** The called side of a session: the calls that are being answered. */
export class Callee implements AnsweringSide {
  readonly outgoing: Outgoing;
  readonly #calls = new CallTable<ServerCall>();
  #server: ServerCore | undefined;
  #budget: AssemblyBudget | undefined;
  #lastId = 0;

  constructor(outgoing: Outgoing) {
    this.outgoing = outgoing;
  }

  /**
   * From now on `server` answers, and the peer is told what it serves.
   * @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when another server answers already.
   */
  attach(server: ServerCore): void {
    if (this.#server !== undefined) {
      throw new VerbmqError('ERR_VERBMQ_RECEIVER_ATTACHED', 'this connection is served already');
    }
    this.#server = server;
    this.#budget = new AssemblyBudget(server.settings.maxBodyBytes);
    this.outgoing.gate.limit(server.settings.maxBacklogBytes);
    this.#announce(server);
  }

  get server(): ServerCore {
    return this.#server as ServerCore;
  }

  get runningCalls(): number {
    return this.#calls.size;
  }

  track(call: ServerCall): void {
    this.#calls.add(call);
    this.server.started();
  }

  untrack(call: ServerCall): void {
    if (this.#calls.delete(call.id)) this.server.finished();
  }

  /** Ends every call: nobody waits for the answers, or will ever get them. */
  end(error: VerbmqError): void {
    for (const call of this.#calls.values()) call.cancel(error);
  }

  /** As `end`, but the callers are told. */
  giveUp(error: VerbmqError): void {
    for (const call of this.#calls.values()) call.giveUp(error);
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /** @throws FrameError */
  receive(reader: FrameReader): void {
    if (reader.type === CALL) {
      this.#call(reader);
      return;
    }
    const call = this.#calls.get(reader.id);
    if (call === undefined) {
      // One that has been answered meanwhile; or one that never was.
      if (reader.id > this.#lastId || reader.id === 0)
        throw new FrameError('a frame of a call that nobody made');
      return;
    }
    // It was answered, or refused, and only what it answers has not left yet. Its caller cannot know, and may still send it things.
    if (call.over && reader.type !== FRAME.cancel) return;
    switch (reader.type) {
      case FRAME.cancel:
        call.cancel(new VerbmqError('ERR_VERBMQ_CANCELLED', `the caller of ${call.method} cancelled`));
        break;
      case FRAME.item:
        receiveItem(call, reader, this.#budget as AssemblyBudget);
        break;
      case FRAME.end:
        if (call.inbound === undefined) throw new FrameError('the end of no stream');
        if (call.assembly !== undefined) throw new FrameError('the end of a stream within an item');
        call.inbound.end();
        break;
      case FRAME.piece:
        this.#piece(call, reader);
        break;
      case FRAME.credit: {
        const bytes = reader.number();
        reader.end();
        call.grant(bytes);
        break;
      }
      default:
        throw new FrameError(`the frame type ${reader.type}`);
    }
  }

  // Its closure stands apart from what runs for each call: see "Code that runs for each message" in CONTRIBUTING.md.
  #piece(call: ServerCall, reader: FrameReader): void {
    receivePiece(call, reader, (read) => this.#run(call, read));
  }

  #call(reader: FrameReader): void {
    const { id } = reader;
    if (id <= this.#lastId) throw new FrameError('a call whose number is not new');
    this.#lastId = id;
    const server = this.#server;
    const backlog = this.outgoing.backlog.answerBytes;
    if (backlog > (server === undefined ? DEFAULT_MAX_BACKLOG_BYTES : server.settings.maxBacklogBytes)) {
      this.#refuseUnread(id, backlog);
      return;
    }
    let name: string | number;
    let method: Method | undefined;
    let codec: string | undefined;
    if (reader.has(NAMED)) {
      name = reader.text(MAX_METHOD_BYTES);
      codec = reader.text(MAX_METHOD_BYTES);
      method = server?.byName.get(name);
    } else {
      name = reader.number();
      method = server?.methods[name];
    }
    const timeoutMs = reader.has(DEADLINE) ? Math.min(reader.number(), MAX_TIMEOUT_MS) : undefined;
    const metadata = reader.has(METADATA) ? readMetadata(reader) : undefined;
    if (method === undefined || server === undefined) {
      const which = typeof name === 'number' ? `number ${name}` : name;
      this.#refuse(id, 'ERR_VERBMQ_RPC_UNKNOWN_METHOD', '', `the peer has no method ${which}`);
      return;
    }
    const own = server.settings.codec.name;
    if (codec !== undefined && codec !== own) {
      const { code, message } = codecError(codec, own); // as the caller sees it
      this.#refuse(id, code, 'codec', message);
      return;
    }
    if (!this.#admit(id, server)) return;
    const call = new ServerCall(this, method, id, reader.has(STREAM_OUT), timeoutMs, metadata);
    if (reader.has(STREAM_IN)) {
      reader.end();
      this.#openInbound(call);
    } else if (reader.has(PARTIAL)) {
      if (announce(call, reader, this.#budget as AssemblyBudget)) call.track();
    } else {
      this.#run(call, reader);
    }
  }

  /** Whether one more call may run now. Refused calls have not run, so the caller may try again. */
  #admit(id: number, server: ServerCore): boolean {
    const { settings } = server;
    if (server.draining) {
      return this.#overloaded(id, 'draining', 'the server is shutting down');
    }
    if (
      server.running >= settings.maxConcurrentCalls ||
      this.#calls.size >= settings.maxConcurrentCallsPerConnection
    ) {
      return this.#overloaded(
        id,
        'concurrency',
        'the server runs as many calls as it may (maxConcurrentCalls, maxConcurrentCallsPerConnection)',
      );
    }
    return true;
  }

  /** Also a call that would be refused for another reason: refusals are answers that wait, too. */
  #refuseUnread(id: number, backlog: number): void {
    const timeoutMs = this.#server?.settings.backlogTimeoutMs ?? DEFAULT_BACKLOG_TIMEOUT_MS;
    const refusingMs = this.outgoing.backlog.refused(timeoutMs / REFUSALS_AT_LEAST);
    if (refusingMs > timeoutMs) throw new FrameError('the answers are not read');
    this.#overloaded(
      id,
      'backlog',
      `${backlog} bytes of answers wait to be read by the caller (maxBacklogBytes)`,
    );
  }

  #overloaded(id: number, reason: string, message: string): false {
    this.#refuse(id, 'ERR_VERBMQ_OVERLOADED', reason, message);
    return false;
  }

  /** @param source the frame that the body is the rest of, or what reads a body that came in pieces. */
  #run(call: ServerCall, source: FrameReader | (() => unknown)): void {
    let body: unknown;
    try {
      body = typeof source === 'function' ? source() : readBody(source, call.codec);
    } catch (error) {
      if (!isVerbmqError(error)) throw error;
      call.fail(error);
      return;
    }
    call.run(body);
  }

  #openInbound(call: ServerCall): void {
    const stream = new InboundStream(
      this.server.settings.streamWindowBytes,
      {
        grant: (bytes) => this.outgoing.sendSimple(FRAME.creditToCaller, call.id, bytes),
        abandon: () => {},
      },
      this.#budget,
    );
    call.inbound = stream;
    call.track();
    stream.open();
    call.run(stream);
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  #refuse(id: number, code: ErrorCode, reason: string, message: string): void {
    if (this.#server !== undefined) this.#server.refused++;
    const writer = takeWriter();
    try {
      writeTexts(writer.start(FRAME.error, 0, id), this.outgoing, code, reason, message);
      this.outgoing.sendApart(writer);
    } catch (error) {
      if (!isVerbmqError(error)) throw error;
    } finally {
      giveBackWriter(writer);
    }
  }

  /**
   * The methods and their numbers, in as many frames as it takes where messages are short. Those that cannot be told of, because the
   * peer's messages are too short for a name, are called by their names.
   */
  #announce(server: ServerCore): void {
    const { methods } = server;
    const most = this.outgoing.frameBytes - HEADER_BYTES;
    let at = 0;
    while (at < methods.length) {
      const writer = takeWriter();
      try {
        writer.start(FRAME.methods, RPC_VERSION, at).text(server.settings.codec.name);
        do {
          writer.text((methods[at] as Method).name);
          at++;
        } while (
          at < methods.length &&
          writer.length + Buffer.byteLength((methods[at] as Method).name) < most
        );
        if (writer.length > this.outgoing.frameBytes) return;
        const sent = this.outgoing.sendHead(writer);
        if (sent !== true) sent.catch(() => {});
      } finally {
        giveBackWriter(writer);
      }
    }
  }
}
