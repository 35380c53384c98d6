import type { Socket } from 'node:net';
import { VerbmqError } from '@verbmq/core';
import { copyOf, Fifo } from '@verbmq/core/transport-kit';
import { FrameType } from './frame.js';
import { COPY_LIMIT_BYTES, firstPayloadBytes, MessageLane } from './message-lane.js';
import { withoutData } from './one-sided-frames.js';
import { SendCredit } from './send-credit.js';
import { SocketWriter } from './socket-writer.js';
import { type Waiter, WriteBuilder } from './write-builder.js';

/** One write takes about so much of what waits, so that what becomes urgent meanwhile never waits behind more. */
const WRITE_BYTES = 1024 * 1024;

/** A frame of a one-sided operation. */
interface QueuedFrame {
  /** Header and the fixed part of the payload. */
  readonly head: Uint8Array;
  /** The rest of the payload; it is not copied. */
  readonly data: Uint8Array | undefined;
  /** The length of the data when they came. Only a WRITE has data of the application's, which may be gone when it leaves. */
  readonly dataBytes: number;
  /** Called when it is part of a write. */
  readonly left: (() => void) | undefined;
}

export interface OutboundHooks {
  /** Bytes have left; there may be room. */
  roomAvailable(): void;
  /** What the receive window grants the peer now, in bytes; 0 for nothing. Asked before each write. */
  takeGrant(): number;
  /** A message cannot be sent that was taken, or of which a part has left: its memory is gone. */
  broken(): void;
}

const NO_BYTES = new Uint8Array(0);

/**
 * What leaves a connection. Small frames are copied into a batch, which leaves in one write at the end of the tick or
 * of the chunk that is being handled. Long messages wait in a lane, one-sided transfers in another; each write takes
 * from them in turn, piece by piece, behind the batch. At most one write is pending: the next one begins when the
 * kernel has taken it all, so frames that become urgent meanwhile go ahead of what still waits here.
 */
export class Outbound {
  readonly #hooks: OutboundHooks;
  readonly #highWaterMarkBytes: number;
  readonly #credit: SendCredit;
  readonly #builder = new WriteBuilder();
  readonly #writer: SocketWriter;
  readonly #messages: MessageLane;
  readonly #frames = new Fifo<QueuedFrame>();
  #messagesTurn = true;
  #pongDue = false;
  /** The peer has granted credit, or a message was dropped: sends may be waiting for that. */
  #granted = false;

  #scheduled = false;
  #held = false;
  #ended = false;
  /** Of a connection that is dead: the error, and who lent memory from which the socket may still read. */
  #error: VerbmqError | undefined;
  #lenders: Waiter[] = [];
  readonly #flushSoon = (): void => {
    this.#scheduled = false;
    this.flush();
  };

  /** @param creditBytes the peer's receive window. */
  constructor(socket: Socket, creditBytes: number, highWaterMarkBytes: number, hooks: OutboundHooks) {
    this.#credit = new SendCredit(creditBytes);
    this.#messages = new MessageLane(this.#credit, (mayGoOn) => {
      this.#granted = true;
      if (!mayGoOn) this.#hooks.broken();
    });
    this.#highWaterMarkBytes = highWaterMarkBytes;
    this.#hooks = hooks;
    this.#writer = new SocketWriter(socket, () => {
      if (this.#ended) return;
      this.#writeAll();
      this.#hooks.roomAvailable();
    });
  }

  /** Bytes of messages and control frames that have not left this process. */
  get bufferedBytes(): number {
    return this.#builder.bytes + this.#messages.bytes + this.#writer.bytes;
  }

  /** Whether everything has left. */
  get empty(): boolean {
    return this.bufferedBytes === 0 && this.#frames.length === 0;
  }

  /** Whether the socket has been given every message and the CLOSE behind them. It may still be writing them. */
  get handedOver(): boolean {
    return this.#builder.bytes === 0 && this.#messages.empty;
  }

  /** Whether the socket is writing, and may read from memory that was lent. */
  get writing(): boolean {
    return this.#writer.busy;
  }

  /** The peer granted more. `false`: more than its own window; nothing was done. */
  grant(bytes: number): boolean {
    if (!this.#credit.grant(bytes)) return false;
    this.#granted = true;
    this.schedule();
    return true;
  }

  /** Takes a message, as `Connection._submit` does. `owned`: nobody else uses its memory any more. */
  message(data: Uint8Array, owned: boolean, mayBorrow: boolean): boolean | Promise<void> {
    if (this.bufferedBytes >= this.#highWaterMarkBytes) return false;
    const { length } = data; // of bytes `length` is the byteLength, and four times as fast to ask for
    if (length <= COPY_LIMIT_BYTES && this.#messages.empty) {
      if (length > this.#credit.payloadBytes) return false;
      this.#credit.take(length);
      this.#smallFrame(FrameType.DATA, data);
      return true;
    }
    if (firstPayloadBytes(length) > this.#credit.payloadBytes) return false;
    this.schedule();
    if (mayBorrow && !owned) {
      return new Promise((resolve, reject) => {
        this.#messages.push(data, { resolve, reject });
      });
    }
    this.#messages.push(owned ? data : copyOf(data), undefined);
    return true;
  }

  /** Takes a message as `Connection._submitBehind` does; `undefined` where it must be in one piece. */
  messageBehind(head: Uint8Array, headerBytes: number, data: Uint8Array): boolean | undefined {
    if (this.bufferedBytes >= this.#highWaterMarkBytes) return false;
    const length = headerBytes + data.length;
    if (length > COPY_LIMIT_BYTES || !this.#messages.empty) return undefined;
    if (length > this.#credit.payloadBytes) return false;
    this.#credit.take(length);
    this.#makeRoom(length);
    this.#builder.frameBehind(FrameType.DATA, head, headerBytes, data);
    if (!this.#scheduled && !this.#held) this.schedule();
    return true;
  }

  /** Asks for a sign of life, ahead of what waits in the lanes. */
  ping(): void {
    this.#smallFrame(FrameType.PING, NO_BYTES);
  }

  /** Answers a ping; several that come before the answer can leave get one. */
  pong(): void {
    this.#pongDue = true;
    this.schedule();
  }

  /** Says behind all messages that no more will come. */
  close(): void {
    if (this.#messages.empty) this.#smallFrame(FrameType.CLOSE, NO_BYTES);
    else this.#messages.pushClose();
  }

  /** Sends a frame of a one-sided operation, in order with its like. `data` must not change until it has left. */
  oneSided(head: Uint8Array, data?: Uint8Array, left?: () => void): void {
    this.#frames.push({ head, data, dataBytes: data?.length ?? 0, left });
    this.schedule();
  }

  /** Sees to it that what there is leaves in this tick, or at the end of the chunk that is being handled. */
  schedule(): void {
    if (this.#scheduled || this.#held || this.#ended || this.#writer.busy) return;
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
    const wrote = this.#writeAll();
    if (wrote || this.#granted) {
      this.#granted = false;
      this.#hooks.roomAvailable();
    }
  }

  /** Everything has left that is to leave, or the socket is gone; nothing is written any more. Nobody who lent memory waits longer. */
  end(): void {
    this.#ended = true;
    const lenders = [...this.#writer.fail(), ...this.#lenders.splice(0)];
    if (lenders.length === 0) return;
    const error = this.#error ?? new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'the socket was closed');
    const unknownOutcome = error.withUnknownOutcome();
    for (const { reject } of lenders) reject(unknownOutcome);
  }

  /** The connection is dead. Who lent memory is told now where the socket does not read from it, else by `end`. */
  fail(error: VerbmqError): void {
    this.#ended = true;
    this.#error = error;
    this.#lenders = [...this.#builder.discard(), ...this.#messages.fail(error)];
    this.#frames.takeAll();
    if (!this.#writer.busy) this.end();
  }

  // ---- private ---------------------------------------------------------------------------------------------

  #smallFrame(type: number, payload: Uint8Array): void {
    this.#makeRoom(payload.length);
    this.#builder.frame(type, payload);
    if (!this.#scheduled && !this.#held) this.schedule();
  }

  #makeRoom(payloadBytes: number): void {
    const builder = this.#builder;
    if (builder.fits(payloadBytes)) return;
    if (this.#writer.busy || this.#ended) builder.nextBatch();
    else this.#writer.write(builder.take());
  }

  /** Writes until a write is pending or nothing is left. Answers whether anything was written. */
  #writeAll(): boolean {
    let wrote = false;
    while (!this.#writer.busy && !this.#ended && this.#gather()) {
      this.#writer.write(this.#builder.take());
      wrote = true;
    }
    return wrote;
  }

  /** Completes the next write. `false`: there is nothing to write. */
  #gather(): boolean {
    const builder = this.#builder;
    if (this.#pongDue) {
      this.#pongDue = false;
      builder.header(FrameType.PONG, 0);
    }
    const grant = this.#hooks.takeGrant();
    if (grant > 0) {
      builder.header(FrameType.WINDOW, 4);
      builder.uint32(grant);
    }
    if (!this.#messages.empty || this.#frames.length > 0) this.#gatherLanes();
    return builder.bytes > 0;
  }

  #gatherLanes(): void {
    while (this.#builder.bytes < WRITE_BYTES) {
      const took = this.#messagesTurn
        ? this.#messages.gather(this.#builder) || this.#gatherFrame()
        : this.#gatherFrame() || this.#messages.gather(this.#builder);
      if (!took) return;
      this.#messagesTurn = !this.#messagesTurn;
    }
  }

  #gatherFrame(): boolean {
    const frame = this.#frames.peek();
    if (frame === undefined || !this.#builder.hasRoom(frame.head.byteLength)) return false;
    this.#frames.shift();
    const { head, data, dataBytes, left } = frame;
    const intact = data === undefined || data.length === dataBytes;
    this.#builder.copy(intact ? head : withoutData(head));
    if (intact && data !== undefined) this.#builder.borrow(data);
    left?.();
    return true;
  }
}
