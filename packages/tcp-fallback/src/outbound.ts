import type { Socket } from 'node:net';
import type { VerbmqError } from '@verbmq/core';
import { Batch } from './batch.js';
import { Fifo } from './fifo.js';
import { FRAME_CHARGE_BYTES, FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES } from './frame.js';

/**
 * Messages up to so many bytes are copied into the batch when they are sent. Beyond it, handing the kernel one more
 * piece of memory costs less than the copy.
 */
export const COPY_LIMIT_BYTES = 16 * 1024;

/** One write takes about so much, so that what becomes urgent meanwhile never waits behind more. */
const WRITE_BYTES = 512 * 1024;

/** A long message does not leave in shorter pieces than this when the peer's window is nearly used up. */
const MIN_PIECE_BYTES = 4 * 1024;

/** A message that did not go into a batch at once. */
interface QueuedMessage {
  /** `undefined`: no message, but the CLOSE frame behind all of them. */
  readonly data: Uint8Array | undefined;
  sentBytes: number;
  /** Where the caller waits for its buffer. */
  readonly settle: { resolve: () => void; reject: (error: VerbmqError) => void } | undefined;
}

/** A frame of a one-sided operation. */
interface QueuedFrame {
  /** Header and the fixed part of the payload. */
  readonly head: Uint8Array;
  /** The rest of the payload; it is not copied. */
  readonly data: Uint8Array | undefined;
  /** Called when the socket is given it. */
  readonly left: (() => void) | undefined;
}

export interface OutboundHooks {
  /** Bytes have left; there may be room. */
  roomAvailable(): void;
  /** What the receive window grants the peer now, in bytes; 0 for nothing. Asked before each write. */
  takeGrant(): number;
}

/**
 * What leaves a connection. Small frames are copied into a batch, which leaves in one write at the end of the tick or
 * of the chunk that is being handled. Long messages wait in a lane, one-sided transfers in another; each write takes
 * from them in turn, piece by piece, behind the batch. At most one write is pending: the next one begins when the
 * kernel has taken it all, so frames that become urgent meanwhile go ahead of what still waits here.
 */
export class Outbound {
  readonly #socket: Socket;
  readonly #hooks: OutboundHooks;
  readonly #highWaterMarkBytes: number;

  #batch: Batch | undefined;
  /** Where the part of the batch begins that is not in the vector yet. */
  #batchStart = 0;
  /** Batches that became full while a write was pending. */
  #fullBatches: Batch[] = [];
  readonly #messages = new Fifo<QueuedMessage>();
  readonly #frames = new Fifo<QueuedFrame>();
  #messagesTurn = true;
  #pongDue = false;
  /** Bytes in batches and in queued messages. */
  #queuedBytes = 0;

  /** What the peer lets us send, in bytes and charges. */
  #credit: number;
  readonly #maxCredit: number;

  /** The write that is being put together or pending, and what becomes free with it. */
  #busy = false;
  #vector: Uint8Array[] = [];
  #vectorBytes = 0;
  #writingBatches: Batch[] = [];
  #writingMessages: QueuedMessage[] = [];

  #scheduled = false;
  #held = false;
  #ended = false;
  readonly #flushSoon = (): void => {
    this.#scheduled = false;
    this.flush();
  };
  readonly #written = (): void => {
    // The callback of a write that was complete when it returned may come after the next one began: look.
    if (!this.#busy || this.#ended || !this.#writeIsComplete()) return;
    this.#completed();
    this.#writeAll();
    this.#hooks.roomAvailable();
  };

  /** @param creditBytes the peer's receive window. */
  constructor(socket: Socket, creditBytes: number, highWaterMarkBytes: number, hooks: OutboundHooks) {
    this.#socket = socket;
    this.#credit = creditBytes;
    this.#maxCredit = creditBytes;
    this.#highWaterMarkBytes = highWaterMarkBytes;
    this.#hooks = hooks;
  }

  /** Bytes of messages and control frames that have not left this process. */
  get bufferedBytes(): number {
    return this.#queuedBytes + this.#vectorBytes;
  }

  /** Whether everything has left. */
  get empty(): boolean {
    return this.bufferedBytes === 0 && this.#messages.length === 0 && this.#frames.length === 0;
  }

  /** The peer granted more. `false`: more than its own window; nothing was done. */
  grant(bytes: number): boolean {
    if (this.#credit + bytes > this.#maxCredit) return false;
    this.#credit += bytes;
    this.schedule();
    return true;
  }

  /** Takes a message, as `Connection._submit` does. `owned`: nobody else uses its memory any more. */
  message(data: Uint8Array, owned: boolean, mayBorrow: boolean): boolean | Promise<void> {
    const length = data.byteLength;
    if (this.#queuedBytes + this.#vectorBytes >= this.#highWaterMarkBytes) return false;
    if (this.#credit < leastCharge(length)) return false;
    this.#queuedBytes += HEADER_BYTES + length;
    if (!this.#scheduled) this.schedule();
    if (length <= COPY_LIMIT_BYTES && this.#messages.length === 0) {
      this.#credit -= length + FRAME_CHARGE_BYTES;
      const batch = this.#batchFor(length);
      batch.header(FrameType.DATA, length);
      batch.append(data);
      return true;
    }
    if (owned || !mayBorrow) {
      this.#messages.push({ data: owned ? data : Buffer.from(data), sentBytes: 0, settle: undefined });
      return true;
    }
    return new Promise((resolve, reject) => {
      this.#messages.push({ data, sentBytes: 0, settle: { resolve, reject } });
    });
  }

  /** Asks for a sign of life, ahead of what waits in the lanes. */
  ping(): void {
    this.#control(FrameType.PING);
    this.schedule();
  }

  /** Answers a ping; several that come before the answer can leave get one. */
  pong(): void {
    this.#pongDue = true;
    this.schedule();
  }

  /** Says behind all messages that no more will come. */
  close(): void {
    if (this.#messages.length === 0) this.#control(FrameType.CLOSE);
    else this.#messages.push({ data: undefined, sentBytes: 0, settle: undefined });
    this.schedule();
  }

  /** Sends a frame of a one-sided operation, in order with its like. `data` must not change until it has left. */
  oneSided(head: Uint8Array, data?: Uint8Array, left?: () => void): void {
    this.#frames.push({ head, data, left });
    this.schedule();
  }

  /** Sees to it that what there is leaves in this tick, or at the end of the chunk that is being handled. */
  schedule(): void {
    if (this.#scheduled || this.#held || this.#busy || this.#ended) return;
    this.#scheduled = true;
    process.nextTick(this.#flushSoon);
  }

  /** A chunk is being handled; `flush` will follow. */
  hold(): void {
    this.#held = true;
  }

  /** Writes what there is, unless a write is pending. */
  flush(): void {
    this.#held = false;
    if (!this.#busy && this.#writeAll()) this.#hooks.roomAvailable();
  }

  /** The connection is dead. Who waits for a buffer is told. */
  fail(error: VerbmqError): void {
    this.#ended = true;
    const unknown = error.withUnknownOutcome();
    for (const message of this.#writingMessages) message.settle?.reject(unknown);
    for (const message of this.#messages.takeAll()) {
      message.settle?.reject(message.sentBytes > 0 ? unknown : error);
    }
    this.#frames.takeAll();
    // What the socket may still be writing from is left to the garbage collector, not recycled.
    this.#batch = undefined;
    this.#fullBatches = [];
    this.#vector = [];
    this.#writingBatches = [];
    this.#writingMessages = [];
    this.#queuedBytes = 0;
    this.#vectorBytes = 0;
  }

  // ---- putting a write together ----------------------------------------------------------------------------------

  #control(type: number): void {
    this.#queuedBytes += HEADER_BYTES;
    this.#batchFor(0).header(type, 0);
  }

  /** The batch, with room for a frame. A full one leaves at once. */
  #batchFor(payloadBytes: number): Batch {
    if (this.#batch !== undefined && !this.#batch.fits(payloadBytes)) {
      if (this.#busy) {
        this.#fullBatches.push(this.#batch);
        this.#batch = undefined;
      } else {
        this.#endBatch();
        this.#write();
      }
    }
    this.#batch ??= Batch.take();
    return this.#batch;
  }

  /** Brings into the vector what the next write takes. `false`: there is nothing. */
  #gather(): boolean {
    if (this.#fullBatches.length > 0) this.#gatherFullBatches();
    const grant = this.#hooks.takeGrant();
    if (this.#pongDue || grant > 0) this.#gatherControl(grant);
    if (this.#messages.length > 0 || this.#frames.length > 0) this.#gatherLanes();
    this.#endBatch();
    return this.#vectorBytes > 0;
  }

  #gatherFullBatches(): void {
    for (const batch of this.#fullBatches.splice(0)) {
      this.#writingBatches.push(batch);
      this.#addToVector(batch.bytes.subarray(0, batch.used));
      this.#queuedBytes -= batch.used;
    }
  }

  #gatherControl(grant: number): void {
    this.#batch ??= Batch.take();
    if (this.#pongDue) this.#gatherHeader(FrameType.PONG, 0);
    this.#pongDue = false;
    if (grant > 0) this.#gatherUint32(FrameType.WINDOW, grant);
  }

  #gatherHeader(type: number, payloadBytes: number): void {
    this.#queuedBytes += HEADER_BYTES;
    (this.#batch as Batch).header(type, payloadBytes);
  }

  #gatherUint32(type: number, value: number): void {
    this.#gatherHeader(type, 4);
    this.#queuedBytes += 4;
    (this.#batch as Batch).uint32(value);
  }

  #gatherLanes(): void {
    this.#batch ??= Batch.take();
    while (this.#vectorBytes + this.#batch.used - this.#batchStart < WRITE_BYTES) {
      const took = this.#messagesTurn
        ? this.#gatherMessage() || this.#gatherFrame()
        : this.#gatherFrame() || this.#gatherMessage();
      if (!took) return;
      this.#messagesTurn = !this.#messagesTurn;
    }
  }

  /** Takes the next piece of the first message that waits. `false`: none waits, or it needs credit or room. */
  #gatherMessage(): boolean {
    const message = this.#messages.peek();
    const batch = this.#batch as Batch;
    if (message === undefined || !batch.hasRoom(3 * HEADER_BYTES)) return false;
    const { data } = message;
    if (data === undefined) {
      this.#messages.shift();
      this.#gatherHeader(FrameType.CLOSE, 0);
      return true;
    }
    const length = data.byteLength;
    if (length <= COPY_LIMIT_BYTES) return this.#gatherWhole(message, data);

    const missing = length - message.sentBytes;
    const bytes = Math.min(missing, MAX_PAYLOAD_BYTES, this.#credit - FRAME_CHARGE_BYTES);
    if (bytes < Math.min(missing, MIN_PIECE_BYTES)) return false;
    if (message.sentBytes === 0) {
      this.#queuedBytes -= HEADER_BYTES; // which was counted when it was submitted
      this.#gatherUint32(FrameType.DATA_BEGIN, length);
    }
    this.#credit -= bytes + FRAME_CHARGE_BYTES;
    this.#gatherHeader(FrameType.DATA_PIECE, bytes);
    this.#gatherData(data.subarray(message.sentBytes, message.sentBytes + bytes));
    this.#queuedBytes -= bytes;
    message.sentBytes += bytes;
    if (bytes === missing) this.#endMessage(message);
    return true;
  }

  /** A short message that came behind a long one. */
  #gatherWhole(message: QueuedMessage, data: Uint8Array): boolean {
    const length = data.byteLength;
    const batch = this.#batch as Batch;
    if (this.#credit < length + FRAME_CHARGE_BYTES || !batch.fits(length)) return false;
    this.#credit -= length + FRAME_CHARGE_BYTES;
    batch.header(FrameType.DATA, length);
    batch.append(data);
    this.#endMessage(message);
    return true;
  }

  #endMessage(message: QueuedMessage): void {
    this.#messages.shift();
    if (message.settle !== undefined) this.#writingMessages.push(message);
  }

  #gatherFrame(): boolean {
    const frame = this.#frames.peek();
    const batch = this.#batch as Batch;
    if (frame === undefined || !batch.hasRoom(frame.head.byteLength)) return false;
    this.#frames.shift();
    this.#queuedBytes += frame.head.byteLength;
    batch.append(frame.head);
    if (frame.data !== undefined) this.#gatherData(frame.data);
    frame.left?.();
    return true;
  }

  /** Puts memory that is not the batch's behind what is in the batch so far. */
  #gatherData(data: Uint8Array): void {
    this.#cutBatch();
    this.#addToVector(data);
  }

  #cutBatch(): void {
    const batch = this.#batch;
    if (batch === undefined || batch.used === this.#batchStart) return;
    this.#queuedBytes -= batch.used - this.#batchStart;
    this.#addToVector(batch.bytes.subarray(this.#batchStart, batch.used));
    this.#batchStart = batch.used;
  }

  #endBatch(): void {
    if (this.#batch === undefined) return;
    this.#cutBatch();
    if (this.#batch.used === 0) this.#batch.recycle();
    else this.#writingBatches.push(this.#batch);
    this.#batch = undefined;
    this.#batchStart = 0;
  }

  #addToVector(bytes: Uint8Array): void {
    this.#vector.push(bytes);
    this.#vectorBytes += bytes.byteLength;
  }

  // ---- writing -------------------------------------------------------------------------------------------------

  /** Writes until a write is pending or nothing is left. Answers whether anything was written. */
  #writeAll(): boolean {
    let wrote = false;
    while (!this.#busy && !this.#ended && this.#gather()) {
      this.#write();
      wrote = true;
    }
    return wrote;
  }

  #write(): void {
    const socket = this.#socket;
    const vector = this.#vector;
    const last = vector.length - 1;
    this.#vector = [];
    this.#busy = true;
    if (last > 0) {
      socket.cork();
      for (let i = 0; i < last; i++) socket.write(vector[i] as Uint8Array);
      socket.write(vector[last] as Uint8Array, this.#written);
      socket.uncork();
    } else {
      socket.write(vector[0] as Uint8Array, this.#written);
    }
    // The kernel mostly takes all of it at once; then nothing of it is needed any more.
    if (this.#writeIsComplete()) this.#completed();
  }

  #writeIsComplete(): boolean {
    return this.#socket.writableLength === 0 && !this.#socket.destroyed;
  }

  #completed(): void {
    this.#busy = false;
    this.#vectorBytes = 0;
    for (const batch of this.#writingBatches) batch.recycle();
    this.#writingBatches.length = 0;
    if (this.#writingMessages.length === 0) return;
    const messages = this.#writingMessages;
    this.#writingMessages = [];
    for (const message of messages) message.settle?.resolve();
  }
}

/** The least credit with which a message of this length may begin. */
function leastCharge(length: number): number {
  return FRAME_CHARGE_BYTES + (length <= COPY_LIMIT_BYTES ? length : MIN_PIECE_BYTES);
}
