import { Connection, OutgoingLease, type VerbmqError } from '@verbmq/core';
import { Heartbeat, type ResolvedConnectionOptions } from '@verbmq/core/transport-kit';
import { type ConnectionDescription, EventKind, Gate, type Handle } from './binding.js';
import { toVerbmqError } from './native-error.js';
import type { Endpoint, RdmaEngine } from './rdma-engine.js';
import type { Slab } from './slab.js';

export interface RdmaConnectionInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  readonly slab: Slab;
  readonly direction: 'in' | 'out';
  readonly options: ResolvedConnectionOptions;
  readonly description: ConnectionDescription;
}

/** How long the end of an aborted connection waits for the peer's device to take the reason, in milliseconds. */
const ABORT_TIMEOUT_MS = 250;

/** A lease whose memory is not the slab's; its bytes are copied when it is sent. */
const ORDINARY_MEMORY = -1;

/**
 * A connection over RDMA. Messages are copied into registered send slots (or written there by the application, with
 * `allocate`) and received in registered receive slots, which the application sees without a copy.
 */
export class RdmaConnection extends Connection implements Endpoint {
  readonly handle: Handle;
  /** The RDMA device that this connection uses. */
  readonly device: string;

  readonly #engine: RdmaEngine;
  readonly #slab: Slab;
  readonly #heartbeat: Heartbeat;
  readonly #gate: Int32Array;
  readonly #headerBytes: number;
  readonly #largestPayload: number;

  // Send slots: a stack of those that are free, and a ring of those that were submitted, in order.
  readonly #freeSlots: Int32Array;
  #freeCount: number;
  readonly #submittedSlots: Int32Array;
  readonly #submittedBytes: Int32Array;
  readonly #ringMask: number;
  /** Counters modulo 2^32, like the gate's. */
  #submitted = 0;
  #completed = 0;
  #fenced = 0;
  #leased = 0;
  /** Bytes of messages that were submitted and are not complete, headers included. */
  #unfinishedBytes = 0;
  /** The engine holds nothing of this connection any more. */
  #gone = false;
  #abortTimer: NodeJS.Timeout | undefined;

  constructor(init: RdmaConnectionInit) {
    const { description, slab } = init;
    const headerBytes = init.engine.addon.layout.headerBytes;
    const largestPayload = Math.min(slab.slotBytes, description.peerSlotBytes) - headerBytes;
    super({
      kind: 'rdma',
      direction: init.direction,
      options: init.options,
      maxMessageBytes: Math.min(slab.maxMessageBytes, description.peerMaxMessageBytes, largestPayload),
      capabilities: { oneSided: 'none', atomics: 'none', largeMessages: 'none', zeroCopySend: 'native' },
      localAddress: description.local,
      remoteAddress: description.remote,
    });
    this.handle = init.handle;
    this.device = description.device;
    this.#engine = init.engine;
    this.#slab = slab;
    this.#gate = slab.gate;
    this.#headerBytes = headerBytes;
    this.#largestPayload = largestPayload;
    this.#freeSlots = Int32Array.from({ length: slab.sendSlots }, (_, index) => slab.sendSlots - 1 - index);
    this.#freeCount = slab.sendSlots;
    const ringSize = 2 ** Math.ceil(Math.log2(slab.sendSlots));
    this.#submittedSlots = new Int32Array(ringSize);
    this.#submittedBytes = new Int32Array(ringSize);
    this.#ringMask = ringSize - 1;
    this.#heartbeat = new Heartbeat(init.options, {
      ping: () => this.#engine.submitPing(this.handle),
      dead: (error) => this._fail(error, error.message),
    });
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  protected override _submit(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    if (this.#unfinishedBytes >= this._options.highWaterMarkBytes) {
      this.#reclaim();
      if (this.#unfinishedBytes >= this._options.highWaterMarkBytes) {
        this.#fence();
        return false;
      }
    }
    if ((((this.#gate[Gate.limit] as number) - this.#submitted) | 0) <= 0) return this.#wait();

    const bytes = data.byteLength;
    let slot: number;
    if (lease !== undefined && lease.token !== ORDINARY_MEMORY) {
      slot = lease.token;
      this.#leased--;
    } else {
      if (this.#freeCount === 0) this.#reclaim();
      if (this.#freeCount === 0) return this.#wait();
      slot = this.#freeSlots[--this.#freeCount] as number;
      if (bytes > 0) this.#slab.bytes.set(data, this.#slab.sendBase + slot * this.#slab.slotBytes);
    }
    const at = this.#submitted & this.#ringMask;
    this.#submittedSlots[at] = slot;
    this.#submittedBytes[at] = bytes + this.#headerBytes;
    this.#submitted = (this.#submitted + 1) | 0;
    this.#unfinishedBytes += bytes + this.#headerBytes;
    this.#engine.submitSend(this.handle, slot, bytes);
    return true;
  }

  /** A message has left when the peer's device has it. */
  protected override _bufferedBytes(): number {
    this.#reclaim();
    if (this.#gone || this.#completed === this.#submitted) return 0;
    this.#fence();
    return this.#unfinishedBytes;
  }

  protected override _allocate(bytes: number): OutgoingLease {
    if (this.#freeCount === 0) this.#reclaim();
    // Half of the slots stay for messages that are not leased, so that leases that are kept cannot stop them.
    if (this.#freeCount === 0 || this.#leased >= this.#slab.sendSlots / 2 || bytes > this.#largestPayload) {
      return new OutgoingLease(Buffer.allocUnsafeSlow(bytes), this, ORDINARY_MEMORY);
    }
    const slot = this.#freeSlots[--this.#freeCount] as number;
    this.#leased++;
    return new OutgoingLease(this.#slab.outgoing(slot, bytes), this, slot);
  }

  override freeOutgoing(lease: OutgoingLease): void {
    if (lease.token === ORDINARY_MEMORY) return;
    this.#leased--;
    this.#freeSlots[this.#freeCount++] = lease.token;
    if (this.#gate[Gate.wantWritable] === 1 && !this.#gone) this._roomAvailable();
  }

  /** Asks to be told when a gate opens. */
  #wait(): false {
    this.#gate[Gate.wantWritable] = 1;
    return false;
  }

  /** Asks to be told when everything submitted is complete: most sends are not signalled. */
  #fence(): void {
    this.#wait();
    if (this.#fenced === this.#submitted) return;
    this.#fenced = this.#submitted;
    this.#engine.submitFence(this.handle);
  }

  #reclaim(): void {
    const completed = this.#gate[Gate.completed] as number;
    while (this.#completed !== completed) {
      const at = this.#completed & this.#ringMask;
      this.#freeSlots[this.#freeCount++] = this.#submittedSlots[at] as number;
      this.#unfinishedBytes -= this.#submittedBytes[at] as number;
      this.#completed = (this.#completed + 1) | 0;
    }
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /** @internal */
  messageArrived(slot: number, bytes: number): void {
    this.#heartbeat.touch();
    this._receive(this.#slab.received(slot, bytes), slot);
  }

  override releaseMessage(slot: number): void {
    if (!this.#gone) this.#engine.submitRelease(this.handle, slot);
  }

  /** A slot is small, so a message that is kept is copied out of it: kept messages can never stall the ring. */
  override retainMessage(slot: number, data: Uint8Array): Uint8Array {
    const copy = data.slice();
    this.releaseMessage(slot);
    return copy;
  }

  // ---- life ------------------------------------------------------------------------------------------------

  protected override _sendClose(): void {
    if (!this.#gone) this.#engine.native.sendClose(this.handle);
  }

  protected override _teardown(): void {
    this.#heartbeat.stop();
    if (this.#gone) this._finished();
    else this.#engine.native.finish(this.handle);
  }

  protected override _kill(_error: VerbmqError, reasonForPeer: string | undefined): void {
    this.#heartbeat.stop();
    if (this.#gone) {
      this._finished();
    } else if (reasonForPeer === undefined) {
      this.#engine.native.destroy(this.handle);
    } else {
      this.#engine.native.abort(this.handle, reasonForPeer);
      this.#abortTimer = setTimeout(() => {
        if (!this.#gone) this.#engine.native.destroy(this.handle);
      }, ABORT_TIMEOUT_MS);
    }
  }

  /** @internal */
  eventArrived(kind: number, a: number): void {
    this.#heartbeat.touch();
    switch (kind) {
      case EventKind.writable:
        this._roomAvailable();
        break;
      case EventKind.peerClosing:
        this._peerClosed();
        break;
      case EventKind.closed:
        this.#ended(a === 1);
        break;
    }
  }

  #ended(failed: boolean): void {
    this.#gone = true;
    clearTimeout(this.#abortTimer);
    this.#engine.unregister(this);
    const failure = failed ? this.#engine.native.takeFailure(this.handle) : undefined;
    if (failure !== undefined) this._fail(toVerbmqError(failure));
    this._finished();
  }
}
