// Longer than 300 lines because it is where the parts meet: sending, receiving, one-sided memory and the end each have a file of their own.
import { Connection, type ConnectionStats, type OutgoingLease, VerbmqError } from '@verbmq/core';
import {
  type DescriptorFields,
  type ExposedByTransport,
  Heartbeat,
  type KeptSends,
  type MessageHead,
  type OutgoingRoom,
  type ResolvedConnectionOptions,
  type ResolvedMemoryAccess,
  type TransferPiece,
  WORDS_BYTES,
} from '@verbmq/core/transport-kit';
import { type ConnectionDescription, EventKind, type Handle } from './binding.js';
import { LargeReceiver } from './large-receiver.js';
import { toVerbmqError } from './native-error.js';
import { OneSidedMemory } from './one-sided-memory.js';
import type { Endpoint, RdmaEngine } from './rdma-engine.js';
import { RdmaOutbound } from './rdma-outbound.js';
import { Slab, WORDS_AS_ON_WIRE } from './slab.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_WORDS_AS_ON_WIRE = WORDS_AS_ON_WIRE;
const OWN_WORDS_BYTES = WORDS_BYTES;

export interface RdmaConnectionInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  readonly slab: Slab;
  readonly direction: 'in' | 'out';
  readonly options: ResolvedConnectionOptions;
  readonly description: ConnectionDescription;
}

/** How long an abort may take to the peer's device, in milliseconds: it is microseconds, unless a machine is very busy. */
const ABORT_TIMEOUT_MS = 1000;
/** A peer that was silent for long is most likely gone, and whoever goes on without it is waiting. */
const ABORT_OF_SILENT_PEER_TIMEOUT_MS = 250;

/** Counters of a connection over RDMA. A snapshot. */
export interface RdmaConnectionStats extends ConnectionStats {
  /**
   * Memory that is registered for this connection: its slab, buffers, used or idle, and what it exposes. Receive slots that it
   * shares with others are not counted here.
   */
  readonly registeredBytes: number;
}

/**
 * A connection over RDMA. Messages are copied into registered send slots (or written there by the application, with
 * `allocate`) and received in registered receive slots, which the application sees without a copy. What is longer than a
 * slot stays where it is, and the peer's device reads it from there.
 */
export class RdmaConnection extends Connection implements Endpoint {
  readonly handle: Handle;
  /** The RDMA device that this connection uses. */
  readonly device: string;

  readonly #engine: RdmaEngine;
  readonly #slab: Slab;
  readonly #heartbeat: Heartbeat;
  readonly #outbound: RdmaOutbound;
  readonly #receiver: LargeReceiver;
  readonly #oneSided: OneSidedMemory;
  /** Both sides have closed; the end waits for the peer to have read what it was told of. */
  #tearingDown = false;
  /** The engine holds nothing of this connection any more. */
  #gone = false;

  constructor(init: RdmaConnectionInit) {
    const { description, slab, engine, handle, options } = init;
    const { highWaterMarkBytes } = options;
    const outbound = new RdmaOutbound({
      engine,
      handle,
      slab,
      description,
      highWaterMarkBytes,
      awaited: () => this._sendsWait,
      roomAvailable: () => {
        if (!this.#gone) this._roomAvailable();
      },
    });
    const large = description.peerWindowBytes > 0;
    const oneSided = new OneSidedMemory(engine, handle, description, (error) =>
      this._fail(error, error.message),
    );
    super({
      kind: 'rdma',
      direction: init.direction,
      options,
      maxMessageBytes: Math.min(
        slab.maxMessageBytes,
        description.peerMaxMessageBytes,
        large ? Number.POSITIVE_INFINITY : outbound.largestPayload,
      ),
      capabilities: {
        oneSided: oneSided.support,
        atomics: oneSided.atomics,
        largeMessages: large ? 'native' : 'none',
        zeroCopySend: 'native',
      },
      localAddress: description.local,
      remoteAddress: description.remote,
    });
    this.handle = handle;
    this.device = description.device;
    this.#engine = engine;
    this.#slab = slab;
    this.#outbound = outbound;
    this.#oneSided = oneSided;
    this.#receiver = new LargeReceiver(
      engine,
      handle,
      engine.options.largeMemoryBytes,
      options.maxGreetingBytes,
      {
        release: (slot) => this.#releaseSlot(slot),
        large: (data, token) => this._receive(data, token),
        small: (slot, bytes) => this.#received(slot, bytes),
        peerClosed: () => this._peerClosed(),
        failed: (error) => this._fail(error, error.message),
      },
    );
    this.#heartbeat = new Heartbeat(options, {
      ping: () => engine.submitPing(handle),
      dead: (error) => this._fail(error, error.message),
    });
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  protected override _submit(
    data: Uint8Array,
    lease: OutgoingLease | undefined,
    mayBorrow: boolean,
  ): boolean | Promise<void> {
    return this.#outbound.submit(data, lease, mayBorrow);
  }

  protected override _submitBehind(head: MessageHead, headerBytes: number, data: Uint8Array): boolean {
    return headerBytes + data.length <= this.#outbound.largestPayload
      ? this.#outbound.submitBehind(head, headerBytes, data)
      : super._submitBehind(head, headerBytes, data);
  }

  protected override _submitBehindWords(
    a: number,
    b: number,
    c: number,
    d: number,
    data: Uint8Array,
  ): number {
    return OWN_WORDS_AS_ON_WIRE && OWN_WORDS_BYTES + data.length <= this.#outbound.largestPayload
      ? this.#outbound.submitBehindWords(a, b, c, d, data)
      : super._submitBehindWords(a, b, c, d, data);
  }

  override keepSent(takeBack: (sent: KeptSends) => void): void {
    this.#outbound.keepSent(takeBack);
  }

  override giveBackSent(): void {
    this.#outbound.giveBackSent();
  }

  override get maxPartsBytes(): number {
    return this.#outbound.largestPayload;
  }

  override get roomBytes(): number {
    return this.#outbound.largestPayload;
  }

  protected override _reserve(): OutgoingRoom | undefined {
    return this.#outbound.reserve();
  }

  protected override _submitReserved(room: OutgoingRoom, bytes: number): boolean {
    return this.#outbound.submitReserved(room, bytes);
  }

  protected override _unreserve(room: OutgoingRoom): void {
    if (!this.#gone && this.#outbound.unreserve(room)) this._roomAvailable();
  }

  protected override _bufferedBytes(): number {
    return this.#gone ? 0 : this.#outbound.bufferedBytes();
  }

  protected override _awaitLeaving(): void {
    if (!this.#gone) this.#outbound.awaitLeaving();
  }

  protected override _allocate(bytes: number): OutgoingLease {
    return this.#outbound.allocate(this, bytes);
  }

  override freeOutgoing(lease: OutgoingLease): void {
    if (!this.#gone && this.#outbound.free(lease)) this._roomAvailable();
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /** @internal */
  messageArrived(slot: number, bytes: number): void {
    this.#heartbeat.touch();
    this.#slab.share?.hold(slot);
    if (this.#receiver.idle) this.#received(slot, bytes);
    else this.#receiver.smallArrived(slot, bytes);
  }

  #received(slot: number, bytes: number): void {
    const { receives } = this.#slab;
    const direct = this._direct;
    if (OWN_WORDS_AS_ON_WIRE && direct !== undefined) {
      direct.receivedAt(receives, receives.startOf(slot), bytes, slot);
      this.#releaseSlot(slot);
    } else this._receive(receives.received(slot, bytes), slot);
  }

  protected override _greeted(): void {
    this.#receiver.lift();
  }

  override releaseMessage(token: number): void {
    if (this.#receiver.owns(token)) this.#receiver.release(token);
    else this.#releaseSlot(token);
  }

  /** Slots of its own are of no use any more when the connection has ended; those that it shares are. */
  #releaseSlot(slot: number): void {
    const { share } = this.#slab;
    if (share !== undefined) share.release(slot);
    else if (!this.#gone) this.#engine.submitRelease(this.handle, slot);
  }

  /** A slot is small, so a message that is kept is copied out of it: kept messages can never stall the ring. */
  override retainMessage(token: number, data: Uint8Array): Uint8Array | undefined {
    if (this.#receiver.owns(token)) return this.#receiver.retain(token, data);
    const copy = data.slice();
    this.releaseMessage(token);
    return copy;
  }

  // ---- one-sided memory ------------------------------------------------------------------------------------

  protected override async _expose(
    memory: number | Uint8Array,
    access: ResolvedMemoryAccess,
  ): Promise<ExposedByTransport> {
    return this.#oneSided.expose(memory, access);
  }

  protected override _read(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    return this.#oneSided.read(remote, offset, target);
  }

  protected override _write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    return this.#oneSided.write(remote, offset, data);
  }

  protected override _readv(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return this.#oneSided.readv(remote, pieces);
  }

  protected override _writev(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return this.#oneSided.writev(remote, pieces);
  }

  protected override _fetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    return this.#oneSided.fetchAdd(remote, offset, addend);
  }

  protected override _compareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    return this.#oneSided.compareAndSwap(remote, offset, expected, desired);
  }

  // ---- life ------------------------------------------------------------------------------------------------

  override stats(): RdmaConnectionStats {
    const { addon, options } = this.#engine;
    const stats = super.stats(); // first: it takes note of what has come free
    const slabBytes = this.#gone ? 0 : Slab.bytesFor(addon, options, this.#slab.sharesReceives);
    const largeBytes = this.#outbound.registeredBytes + this.#receiver.registeredBytes;
    const registeredBytes = slabBytes + largeBytes + this.#oneSided.registeredBytes;
    return { ...stats, registeredBytes };
  }

  protected override _sendClose(): void {
    if (!this.#gone) this.#engine.native.sendClose(this.handle);
  }

  protected override _teardown(): void {
    this.#heartbeat.stop();
    this.#tearingDown = true;
    this.#finishIfRead();
  }

  #finishIfRead(): void {
    this.#outbound.reclaim();
    if (this.#gone) {
      this._finished();
    } else if (this.#outbound.unread) {
      this.#outbound.wait();
    } else {
      this.#tearingDown = false;
      this.#engine.native.finish(this.handle);
    }
  }

  protected override _kill(error: VerbmqError, reasonForPeer: string | undefined): void {
    this.#heartbeat.stop();
    this.#tearingDown = false;
    this.#outbound.fail(error);
    this.#receiver.stop();
    this.#oneSided.fail(error);
    if (this.#gone) {
      this._finished();
    } else if (reasonForPeer === undefined) {
      this.#engine.native.destroy(this.handle);
    } else {
      const silent = error.code === 'ERR_VERBMQ_PEER_TIMEOUT';
      const timeoutMs = silent ? ABORT_OF_SILENT_PEER_TIMEOUT_MS : ABORT_TIMEOUT_MS;
      const refusal = error.code === 'ERR_VERBMQ_REMOTE_ACCESS';
      this.#engine.native.abort(this.handle, reasonForPeer, timeoutMs, refusal);
    }
  }

  /** @internal */
  eventArrived(kind: number, a: number, b: number): void {
    if (isFromPeer(kind)) this.#heartbeat.touch();
    switch (kind) {
      case EventKind.writable:
        this.#gateMoved();
        break;
      case EventKind.advertised:
        this.#slab.share?.hold(a);
        this.#receiver.advertised(a, b);
        break;
      case EventKind.fetched:
        this.#receiver.fetched();
        break;
      case EventKind.operationDone:
      case EventKind.note:
      case EventKind.answer:
        this.#oneSided.eventArrived(kind);
        break;
      case EventKind.peerClosing:
        if (this.#receiver.idle) this._peerClosed();
        else this.#receiver.closeArrived();
        break;
      case EventKind.lost:
        this.#failed();
        break;
      case EventKind.closed:
        this.#ended(a === 1);
        break;
    }
  }

  #gateMoved(): void {
    this.#outbound.reclaim();
    this._roomAvailable();
    if (this.#tearingDown) this.#finishIfRead();
  }

  #failed(): void {
    const failure = this.#engine.native.takeFailure(this.handle);
    if (failure !== undefined) this._fail(toVerbmqError(failure));
  }

  #ended(failed: boolean): void {
    this.#gone = true;
    this.#engine.unregister(this);
    if (failed) this.#failed();
    this.#outbound.end();
    this.#receiver.end();
    const { share } = this.#slab;
    if (share !== undefined) this.#engine.receivePools?.leave(share, this);
    this.#oneSided.end(new VerbmqError('ERR_VERBMQ_CLOSED', 'the connection has ended'));
    this._finished();
  }
}

/**
 * Whether an event comes of a frame that the peer's code has sent. What this side's own operations come to says nothing of that code:
 * the peer's device answers them for a process that has stopped.
 */
function isFromPeer(kind: number): boolean {
  switch (kind) {
    case EventKind.advertised:
    case EventKind.note:
    case EventKind.answer:
    case EventKind.pong:
    case EventKind.peerClosing:
      return true;
    default:
      return false;
  }
}
