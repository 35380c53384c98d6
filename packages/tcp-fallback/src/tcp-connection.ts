import type { Socket } from 'node:net';
import { type Capabilities, Connection, type OutgoingLease, VerbmqError } from '@verbmq/core';
import {
  type ConnectionInit,
  type DescriptorFields,
  type ExposedByTransport,
  Heartbeat,
  isReused,
  MemoryRegions,
  type MessageHead,
  type ResolvedMemoryAccess,
} from '@verbmq/core/transport-kit';
import { discardChunk } from './discard-chunk.js';
import { farewell } from './farewell.js';
import { AbortCode, abortFrame, chargeOf, FrameType } from './frame.js';
import { FrameParser } from './frame-parser.js';
import type { Hello } from './hello.js';
import { Inbound } from './inbound.js';
import { LentMemory } from './lent-memory.js';
import { COPY_LIMIT_BYTES } from './message-lane.js';
import { OneSidedOwner } from './one-sided-owner.js';
import { OneSidedRequester } from './one-sided-requester.js';
import { Outbound } from './outbound.js';
import { ReceiveWindow } from './receive-window.js';

/** `zeroCopySend` is emulated: a lease is not copied in this process, but the kernel copies what it sends. */
export const TCP_CAPABILITIES: Capabilities = {
  oneSided: 'emulated',
  atomics: 'emulated',
  largeMessages: 'native',
  zeroCopySend: 'emulated',
};

/** How long the peer may take to end its side of the socket after the orderly close, in milliseconds. */
const END_TIMEOUT_MS = 1000;

/** A message that is retained, or waits, and is a smaller part of its chunk than this is copied, so that it does not keep the chunk. */
const KEPT_PART = 1 / 2;

/**
 * A connection over a socket on which both hellos have been exchanged. It owns the socket: reads it always, so that
 * control frames, one-sided operations and the close get through while the application reads nothing, and gives it
 * back before `closed` resolves.
 */
export class TcpConnection extends Connection {
  readonly #socket: Socket;
  readonly #outbound: Outbound;
  readonly #window: ReceiveWindow;
  readonly #inbound: Inbound;
  readonly #parser: FrameParser;
  readonly #lent = new LentMemory();
  readonly #regions = new MemoryRegions();
  readonly #requester: OneSidedRequester;
  readonly #heartbeat: Heartbeat;
  /** Both sides have closed: the socket ends when everything has left. */
  #tearingDown = false;
  #socketEnded = false;
  #socketGone = false;
  #killed = false;

  constructor(socket: Socket, init: ConnectionInit, own: Hello, peer: Hello) {
    super(init);
    this.#socket = socket;
    this.#window = new ReceiveWindow(own.receiveWindowBytes);
    this.#outbound = new Outbound(socket, peer.receiveWindowBytes, init.options.highWaterMarkBytes, {
      roomAvailable: () => {
        this._roomAvailable();
        this.#maybeEndSocket();
      },
      takeGrant: () => this.#window.takeGrant(),
      broken: () => this.abort('the memory of a message was transferred or resized while it was being sent'),
    });
    this.#requester = new OneSidedRequester(this.#outbound, peer.oneSidedWindowBytes);
    this.#inbound = new Inbound(
      {
        message: (data, charge) => this.#deliver(data, charge),
        lentMessage: (data, memory) => this._receive(data, -this.#lent.lend(memory)),
        peerClosed: () => this._peerClosed(),
        peerAborted: (code, reason) => this._fail(errorOfAbort(code, reason)),
      },
      init.maxMessageBytes,
      this.#window,
      this.#outbound,
      this.#requester,
      new OneSidedOwner(this.#regions, this.#outbound, own.oneSidedWindowBytes),
    );
    if (init.options.maxGreetingBytes < init.maxMessageBytes)
      this.#inbound.limit(init.options.maxGreetingBytes);
    this.#parser = new FrameParser(this.#inbound);
    this.#heartbeat = new Heartbeat(init.options, {
      ping: () => this.#outbound.ping(),
      dead: (error) => this._fail(error, error.message),
    });
    socket.on('data', (chunk: Buffer) => this.receiveChunk(chunk));
    socket.on('end', () => this.#readableEnded());
    socket.on('error', (error) => this.#lost(`the connection broke (${error.message})`, error));
    socket.on('close', () => this.#socketClosed());
  }

  /** @internal Handles what the socket brought; also what came together with the peer's hello. */
  receiveChunk(chunk: Buffer): void {
    this.#heartbeat.touch();
    this.#outbound.hold();
    try {
      if (!this.#parser.push(chunk)) discardChunk(chunk);
    } catch (error) {
      if (error instanceof VerbmqError) {
        this._fail(error, error.message);
        return;
      }
      // A fault of this side's. What is left of the chunk is lost, so nothing that follows could be understood.
      const what = `this side could not handle what came: ${error}`;
      this._fail(new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', what, { cause: error }), what);
      throw error;
    } finally {
      this.#outbound.flush();
    }
  }

  // ---- messages --------------------------------------------------------------------------------------------------

  protected override _submit(
    data: Uint8Array,
    lease: OutgoingLease | undefined,
    mayBorrow: boolean,
  ): boolean | Promise<void> {
    return this.#outbound.message(data, lease !== undefined, mayBorrow);
  }

  protected override _submitBehind(head: MessageHead, headerBytes: number, data: Uint8Array): boolean {
    return (
      this.#outbound.messageBehind(head.bytes, headerBytes, data) ??
      super._submitBehind(head, headerBytes, data)
    );
  }

  override get maxPartsBytes(): number {
    return COPY_LIMIT_BYTES;
  }

  protected override _bufferedBytes(): number {
    return this.#outbound.bufferedBytes;
  }

  /** @param token the charge of a message, or below 0 that of a lease of memory */
  override releaseMessage(token: number, bytes: number): void {
    if (token > 0) this.#openWindow(token);
    else if (!this.#lent.end(-token)) this.#openWindow(chargeOf(bytes));
  }

  #deliver(data: Uint8Array, charge: number): void {
    this._receive(this._nextWaits ? ownMemory(data) : data, charge);
  }

  protected override _greeted(): void {
    this.#inbound.lift(this.maxMessageBytes);
  }

  /** A kept message is the application's: its window is given back at once. */
  override retainMessage(token: number, data: Uint8Array): Uint8Array | undefined {
    this.#openWindow(chargeOf(data.length));
    if (token < 0) return this.#lent.keep(-token) ? undefined : data;
    return ownMemory(data);
  }

  #openWindow(charge: number): void {
    if (this.#window.release(charge)) this.#outbound.schedule();
  }

  // ---- the end ---------------------------------------------------------------------------------------------------

  protected override _sendClose(): void {
    this.#outbound.close();
  }

  protected override _teardown(): void {
    this.#tearingDown = true;
    this.#maybeEndSocket();
  }

  protected override _kill(error: VerbmqError, reasonForPeer: string | undefined): void {
    this.#killed = true;
    this.#release();
    this.#outbound.fail(error);
    this.#requester.fail(error, this.#outbound.writing);
    if (this.#socketGone) this.#finish();
    else if (reasonForPeer === undefined) this.#socket.destroy();
    else farewell(this.#socket, abortFrame(abortCodeOf(error), reasonForPeer));
  }

  #maybeEndSocket(): void {
    if (this.#tearingDown && !this.#socketEnded && !this.#killed && this.#outbound.empty) this.#endSocket();
  }

  #endSocket(): void {
    this.#socketEnded = true;
    this.#release();
    this.#outbound.end();
    const socket = this.#socket;
    const timer = setTimeout(() => socket.destroy(), END_TIMEOUT_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.end();
  }

  #readableEnded(): void {
    // By TLS the peer may have our CLOSE, and be gone, before this side is told that its last write is complete. That is told next, if
    // it is so; else the socket breaks, or the close takes too long.
    if (this.#tearingDown && this.#outbound.handedOver && this.#outbound.writing) return;
    this.#lost(
      'the peer ended the connection without closing it: its process ended, or something between cut it',
    );
  }

  /** Whether the kernel has taken everything, the CLOSE included. */
  get #allLeft(): boolean {
    return this.#tearingDown && this.#outbound.handedOver && !this.#outbound.writing;
  }

  #lost(what: string, cause?: Error): void {
    if (this.#socketEnded || this.#killed) return;
    if (this.#allLeft) this.#endSocket();
    else this._fail(new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', what, { cause }));
  }

  #socketClosed(): void {
    this.#socketGone = true;
    if (this.#allLeft) this.#socketEnded = true;
    this.#release();
    if (this.#socketEnded || this.#killed) this.#finish();
    else this.#lost('the socket was closed');
  }

  /** The socket is gone, and reads from nobody's memory any more. */
  #finish(): void {
    this.#outbound.end();
    this.#requester.end();
    this._finished();
  }

  #release(): void {
    this.#heartbeat.stop();
    this.#parser.stop();
    this.#inbound.discard();
    this.#lent.clear();
    this.#regions.clear();
  }

  // ---- one-sided operations ----------------------------------------------------------------------------------------

  protected override async _expose(
    memory: number | Uint8Array,
    access: ResolvedMemoryAccess,
  ): Promise<ExposedByTransport> {
    return this.#regions.expose(memory, access);
  }

  protected override _read(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    return this.#requester.read(remote, offset, target);
  }

  protected override _write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    return this.#requester.write(remote, offset, data);
  }

  protected override _fetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    return this.#requester.atomic(FrameType.FETCH_ADD, remote, offset, [addend]);
  }

  protected override _compareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    return this.#requester.atomic(FrameType.COMPARE_AND_SWAP, remote, offset, [expected, desired]);
  }
}

/**
 * A message that is longer with us than its chunk: it must not lie where the next read goes, nor keep much more memory than the
 * receive window counts for it.
 */
function ownMemory(data: Uint8Array): Uint8Array {
  return isReused(data) || data.length < data.buffer.byteLength * KEPT_PART ? new Uint8Array(data) : data;
}

function abortCodeOf(error: VerbmqError): number {
  if (error.code === 'ERR_VERBMQ_REMOTE_ACCESS') return AbortCode.REMOTE_ACCESS;
  return error.code === 'ERR_VERBMQ_PROTOCOL' ? AbortCode.PROTOCOL : AbortCode.OTHER;
}

function errorOfAbort(code: number, reason: string): VerbmqError {
  if (code === AbortCode.REMOTE_ACCESS) {
    return new VerbmqError('ERR_VERBMQ_REMOTE_ACCESS', `the peer refused a one-sided operation: ${reason}`);
  }
  return new VerbmqError('ERR_VERBMQ_PEER_ABORTED', `the peer aborted the connection: ${reason}`);
}
