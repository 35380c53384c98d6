import type { Connection } from '../contract/connection.js';
import type { ReceiveMemory } from '../contract/direct-receiver.js';
import { VerbmqError } from '../contract/errors.js';
import type { CloseInfo } from '../contract/lifecycle.js';
import { describe } from '../contract/options.js';
import { Callee } from './callee.js';
import { Caller } from './caller.js';
import { FrameError, FrameReader } from './frame-reader.js';
import { Outgoing } from './outgoing.js';
import { LEAST_MESSAGE_BYTES, TO_CALLER } from './protocol.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_TO_CALLER = TO_CALLER;

const sessions = new WeakMap<Connection, RpcSession>();

/** A frame is read to its end before the next one is looked at: one reader does for all. */
const reader = new FrameReader();

/**
 * Rpc on one connection: gives what arrives to the side that calls or to the side that is called. A connection has one session,
 * whether it is used in one direction or in both.
 */
export class RpcSession {
  readonly outgoing: Outgoing;
  readonly caller: Caller;
  readonly callee: Callee;
  readonly #connection: Connection;
  #ended = false;

  /**
   * @throws TypeError for what is no connection; VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when it is used for something else,
   *   `ERR_VERBMQ_UNSUPPORTED` when its messages are too short.
   */
  static of(connection: Connection): RpcSession {
    let session = RpcSession.find(connection);
    if (session === undefined) {
      const { maxMessageBytes } = connection;
      if (maxMessageBytes < LEAST_MESSAGE_BYTES) {
        throw new VerbmqError(
          'ERR_VERBMQ_UNSUPPORTED',
          `rpc needs messages of ${LEAST_MESSAGE_BYTES} bytes, and both sides of this connection accept ${maxMessageBytes}: raise maxMessageBytes`,
        );
      }
      session = new RpcSession(connection);
      sessions.set(connection, session);
    }
    return session;
  }

  /** That of a connection on which there is one. @throws TypeError for what is no connection. */
  static find(connection: Connection): RpcSession | undefined {
    if (typeof connection?.onMessage !== 'function')
      throw new TypeError(`calls go over a connection, not ${describe(connection)}`);
    return sessions.get(connection);
  }

  private constructor(connection: Connection) {
    this.#connection = connection;
    this.outgoing = new Outgoing(connection, (error) => this.#finish(error));
    this.caller = new Caller(this.outgoing);
    this.callee = new Callee(this.outgoing);
    connection.onMessage(({ data }) => this.#receive(data, 0, data.length));
    connection.receiveDirectly({
      received: (data, token) => {
        const { length } = data; // before a handler takes the memory away
        this.#receiveDirectly(data, 0, length);
        connection.releaseMessage(token, length);
      },
      receivedAt: (memory, at, bytes, token) => this.#receiveDirectly(memory.bytes, at, bytes, memory, token),
    });
    void connection.ending.then((info) => this.#finish(endOf(info)));
  }

  /** A frame is read where it lies; nothing that was made of it refers to that memory. */
  #receiveDirectly(
    data: Uint8Array,
    at: number,
    bytes: number,
    memory?: ReceiveMemory,
    token?: number,
  ): void {
    this.#connection.countReceived(bytes);
    try {
      this.#receive(data, at, at + bytes, memory, token);
    } catch (error) {
      // As `Inbox` does with what a handler throws.
      process.nextTick(() => {
        throw error;
      });
    }
  }

  #receive(data: Uint8Array, start: number, end: number, memory?: ReceiveMemory, token?: number): void {
    if (this.#ended) return;
    try {
      reader.open(data, start, end, memory, token);
      if ((reader.type & OWN_TO_CALLER) !== 0) this.caller.receive(reader);
      else this.callee.receive(reader);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.outgoing.violated(error.message);
    }
  }

  #finish(error: VerbmqError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.outgoing.end = error;
    this.caller.end(error);
    this.callee.end(error);
  }
}

function endOf(info: CloseInfo): VerbmqError {
  return (
    info.error ??
    new VerbmqError('ERR_VERBMQ_CLOSED', 'the connection was closed before the call was answered')
  );
}
