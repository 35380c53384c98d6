import { type Codec, MAX_BORROWED_BYTES, MAX_RESERVE } from '../codec/codec.js';
import type { Connection } from '../contract/connection.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import { copyHead } from '../contract/message-head.js';
import { WaitingSend } from '../contract/send-queue.js';
import { Backlog } from './backlog.js';
import { BulkLane, type Transfer } from './bulk-lane.js';
import { type FrameWriter, giveBackWriter, takeWriter } from './frame-writer.js';
import type { SentItem } from './outbound-stream.js';
import { FLAG, FRAME_BYTES, PIECE_BYTES, TO_CALLER } from './protocol.js';
import { StreamGate } from './stream-gate.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const { raw: RAW } = FLAG;
const OWN_TO_CALLER = TO_CALLER;

/** Whose frames may be on their way, so that they can be called off. */
export interface Sender {
  /** The large body. */
  transfer: Transfer | undefined;
  /** The frames that wait, from the first that does. They leave in this order. */
  waiting: WaitingSend[] | undefined;
}

/** An encoder may want so many times the room that the body takes in the end, as when it cannot tell how long a text will be. */
const ROOM_SHARE = 4;

/** What a waiting frame costs beyond its bytes, as measured: its place, its promises and what they call, and its array. */
const WAITING_OVERHEAD = 1024;

/**
 * The most that may wait of frames which no call stands for, in bytes: refusals, credit, cancellations. A peer can have any number
 * of them sent, and need not read any.
 */
const MAX_APART_BYTES = 64 * 1024 * 1024;

/**
 * All that leaves on one connection, from the side that calls and from the side that is called: each frame by the shortest way that the
 * transport offers.
 */
export class Outgoing {
  readonly connection: Connection;
  /** What waits because the peer does not take it. */
  readonly backlog = new Backlog();
  /** How much of that the streams may have. */
  readonly gate = new StreamGate();
  /** The longest frame, in bytes; longer bodies go in pieces. */
  readonly frameBytes: number;
  readonly #lane: BulkLane;
  /** The longest frame whose head and body the transport puts together itself, in bytes. */
  readonly #partsBytes: number;
  /** The room that the transport has for a message to be written in, in bytes; 0 where it has none, or more than a frame may fill. */
  readonly #roomBytes: number;
  /** Whether the next body is likely to fit: one that does not is encoded twice. */
  #encodesInPlace: boolean;
  /** What waits of frames that no call stands for, in bytes. */
  #apartBytes = 0;
  /** The length of the frame that was sent last, with all of its body. */
  #lastBytes = 0;
  readonly #failed: (error: VerbmqError) => void;
  /** Why nothing can be sent or received any more; `undefined` while it can. */
  end: VerbmqError | undefined = undefined;

  /** @param failed is called when rpc cannot go on, before the connection is aborted; it sets `end`. */
  constructor(connection: Connection, failed: (error: VerbmqError) => void) {
    this.connection = connection;
    this.frameBytes = Math.min(FRAME_BYTES, connection.maxMessageBytes);
    this.#partsBytes = connection.maxPartsBytes;
    this.#roomBytes = connection.roomBytes <= this.frameBytes ? connection.roomBytes : 0;
    this.#encodesInPlace = this.#roomBytes > 0;
    const isRegistered = connection.capabilities.zeroCopySend === 'native';
    const pieceBytes = Math.min(isRegistered ? FRAME_BYTES : PIECE_BYTES, connection.maxMessageBytes);
    this.#lane = new BulkLane(connection, pieceBytes, this.backlog);
    this.#failed = failed;
  }

  /**
   * Sends the frame whose head is in `writer`, with `body`. Answers `true` when the transport has taken all of it, else a
   * promise that says when it has. A `Uint8Array` that is longer than a frame must not change before.
   *
   * @throws VerbmqError `ERR_VERBMQ_ENCODE`, `ERR_VERBMQ_CLOSED`, `ERR_VERBMQ_SEND_QUEUE_FULL`.
   */
  send(writer: FrameWriter, body: unknown, codec: Codec, sender: Sender): true | Promise<void> {
    if (body === undefined) return this.#transmit(writer.view(), sender);
    if (body instanceof Uint8Array) return this.#sendRaw(writer, body, sender);
    const head = writer.length;
    if (this.#encodesInPlace) {
      const sent = this.#encodeInPlace(writer, body, codec, sender);
      if (sent !== undefined) return sent;
    }
    const reserved = head <= MAX_RESERVE ? head : 0;
    const bytes = codec.encode(body, reserved);
    const total = head + bytes.length - reserved;
    this.#encodesInPlace = total <= this.#roomBytes / ROOM_SHARE;
    if (total > this.frameBytes) {
      const encoded = bytes.subarray(reserved);
      const own = bytes.byteLength > MAX_BORROWED_BYTES ? encoded : new Uint8Array(encoded);
      return this.#sendInPieces(writer, own, sender);
    }
    if (reserved === 0) return this.#transmit(writer.raw(bytes).view(), sender);
    const from = writer.bytes;
    for (let i = 0; i < head; i++) bytes[i] = from[i] as number;
    return this.#transmit(bytes, sender);
  }

  /**
   * As `send`, for a body that has to fit into the frame.
   * @throws VerbmqError `ERR_VERBMQ_MESSAGE_TOO_LARGE` besides.
   */
  sendWhole(writer: FrameWriter, body: unknown, codec: Codec): true | Promise<void> {
    const bytes = body instanceof Uint8Array ? body : codec.encode(body, 0);
    if (body instanceof Uint8Array) writer.addFlag(RAW);
    if (writer.length + bytes.byteLength > this.frameBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_MESSAGE_TOO_LARGE',
        `${bytes.byteLength} bytes do not fit into a frame of ${this.frameBytes}`,
      );
    }
    return this.#transmit(writer.raw(bytes).view());
  }

  /** Sends an item of a stream while the gate is open, and answers with its length besides. */
  sendItem(writer: FrameWriter, value: unknown, codec: Codec, sender: Sender): SentItem {
    const head = writer.length;
    const sent = this.send(writer, value, codec, sender);
    const bytes = this.#lastBytes;
    if (sent !== true) this.gate.waits(bytes + WAITING_OVERHEAD, bytes > FRAME_BYTES, sent);
    return { bytes: bytes - head, sent };
  }

  /** Sends a frame of a number at most. One that the ending connection does not take is of no use to anybody. */
  sendSimple(type: number, id: number, number?: number, sender?: Sender): void {
    const writer = takeWriter();
    try {
      writer.start(type, 0, id);
      if (number !== undefined) writer.number(number);
      this.sendApart(writer, sender);
    } catch (error) {
      if (!isVerbmqError(error)) throw error;
    } finally {
      giveBackWriter(writer);
    }
  }

  /** Sends a frame that is complete, and that cannot be left out: where it may not even wait, the connection ends. */
  sendHead(writer: FrameWriter, sender?: Sender): true | Promise<void> {
    try {
      return this.#transmit(writer.view(), sender);
    } catch (error) {
      if (!isVerbmqError(error, 'ERR_VERBMQ_SEND_QUEUE_FULL')) throw error;
      this.#giveUp(error, 'what it is told is not read');
      return true;
    }
  }

  /** As `sendHead`, for a frame that no call stands for, so that nothing else bounds how many there are. */
  sendApart(writer: FrameWriter, sender?: Sender): void {
    const cost = writer.length + WAITING_OVERHEAD;
    const sent = this.sendHead(writer, sender);
    if (sent === true) return;
    this.#apartBytes += cost;
    const left = (): void => {
      this.#apartBytes -= cost;
    };
    sent.then(left, left); // when the connection has ended nobody is there to be told
    if (this.#apartBytes > MAX_APART_BYTES) this.violated('what it asks for is not read');
  }

  /** Takes back what waits of `sender`. `false`: the first that waited does not any more. */
  withdraw(sender: Sender): boolean {
    const { waiting } = sender;
    sender.waiting = undefined;
    if (waiting === undefined || !this.connection.withdraw(waiting[0] as WaitingSend)) return false;
    for (const other of waiting) this.connection.withdraw(other);
    return true;
  }

  /** Calls off what is left of a large body. `false`: nothing was left of any. */
  cancelTransfer(sender: Sender): boolean {
    const { transfer } = sender;
    sender.transfer = undefined;
    return transfer !== undefined && this.#lane.cancel(transfer);
  }

  /** The peer broke the protocol: the connection cannot be trusted any more. */
  violated(why: string): void {
    this.#giveUp(
      new VerbmqError('ERR_VERBMQ_PROTOCOL', `the peer sent something that rpc does not allow: ${why}`),
      why,
    );
  }

  #giveUp(error: VerbmqError, why: string): void {
    if (this.end !== undefined) return;
    this.#failed(error);
    this.connection.abort(`rpc: ${why}`);
  }

  #sendRaw(writer: FrameWriter, body: Uint8Array, sender: Sender): true | Promise<void> {
    writer.addFlag(RAW);
    const { connection } = this;
    const head = writer.length;
    const bytes = head + body.length;
    if (bytes > this.frameBytes) return this.#sendInPieces(writer, body, sender);
    if (bytes > this.#partsBytes || connection.state !== 'open') {
      return this.#transmit(writer.raw(body).view(), sender);
    }
    if (connection.trySendBehind(writer, head, body)) {
      this.#lastBytes = bytes;
      return true;
    }
    return this.#wait(new Uint8Array(writer.raw(body).view()), sender);
  }

  /** Writes the frame where it leaves from, if the transport has room to write in and it fits there. */
  #encodeInPlace(
    writer: FrameWriter,
    body: unknown,
    codec: Codec,
    sender: Sender,
  ): true | Promise<void> | undefined {
    const { connection } = this;
    const head = writer.length;
    if (codec.encodeInto === undefined || head > MAX_RESERVE || connection.state !== 'open') return undefined;
    const room = connection.reserve();
    if (room === undefined) return undefined;
    const { bytes } = room;
    let end = -1;
    copyHead(writer, head, room, 0);
    try {
      end = codec.encodeInto(body, bytes, head);
      if (!(end >= head && end <= bytes.length)) end = -1; // it cannot be there
    } finally {
      if (end < 0) connection.unreserve(room);
    }
    if (end < 0) return undefined;
    if (connection.trySendReserved(room, end)) {
      this.#lastBytes = end;
      return true;
    }
    const own = new Uint8Array(bytes.subarray(0, end));
    connection.unreserve(room);
    return this.#wait(own, sender);
  }

  #sendInPieces(writer: FrameWriter, body: Uint8Array, sender: Sender): Promise<void> {
    writer.addFlag(FLAG.partial);
    const { toCaller, id } = writer;
    const head = writer.length;
    const announced = this.#transmit(writer.number(body.byteLength).view(), sender);
    this.#lastBytes = head + body.byteLength;
    const { transfer, sent } = this.#lane.add(toCaller, id, body, announced);
    sender.transfer = transfer;
    return sent;
  }

  #transmit(bytes: Uint8Array, sender?: Sender): true | Promise<void> {
    this.#lastBytes = bytes.byteLength;
    return this.connection.trySend(bytes) || this.#wait(new Uint8Array(bytes), sender);
  }

  /**
   * A frame for which there is no room yet.
   * @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL` where there will not be any.
   */
  #wait(own: Uint8Array, sender: Sender | undefined): Promise<void> {
    this.#lastBytes = own.byteLength;
    const cost = own.byteLength + WAITING_OVERHEAD;
    const toCaller = ((own[0] as number) & OWN_TO_CALLER) !== 0;
    const waiting = this.connection.sendOrWait(own);
    this.backlog.add(cost, toCaller);
    const left = (): void => this.backlog.remove(cost, toCaller);
    const sent = waiting instanceof WaitingSend ? waiting.sent : waiting;
    sent.then(left, left); // not `finally`, which takes several times the memory
    if (sender !== undefined && waiting instanceof WaitingSend) {
      if (sender.waiting?.at(-1)?.waits === true) sender.waiting.push(waiting);
      else sender.waiting = [waiting];
    }
    return sent;
  }
}
