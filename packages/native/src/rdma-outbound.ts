// Longer than 300 lines because every way in which a message can leave passes the same gates and slots, and they are checked here alone.
import { type Connection, OutgoingLease, type VerbmqError } from '@verbmq/core';
import {
  copyHead,
  KEPT,
  type KeptSends,
  type MessageHead,
  NOT_KEPT,
  NOT_TAKEN,
  type OutgoingRoom,
  WORDS_BYTES,
} from '@verbmq/core/transport-kit';
import { type ConnectionDescription, Gate, type Handle } from './binding.js';
import { bufferBytesFor } from './buffer-pool.js';
import { type LargeMessage, LargeSender } from './large-sender.js';
import { LIMIT_REACHED, type MemoryWaiter } from './pool-memory.js';
import type { RdmaEngine } from './rdma-engine.js';
import { SendSlots } from './send-slots.js';
import type { Slab } from './slab.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const {
  completed: COMPLETED,
  limit: LIMIT,
  wantWritable: WANT_WRITABLE,
  largeRead: LARGE_READ,
  largeReleased: LARGE_RELEASED,
} = Gate;
const OWN_KEPT = KEPT;
const OWN_NOT_TAKEN = NOT_TAKEN;
const OWN_NOT_KEPT = NOT_KEPT;
const OWN_WORDS_BYTES = WORDS_BYTES;
const { set } = Uint8Array.prototype;

/** A lease whose memory is not registered; its bytes are copied when it is sent. Tokens below it are large leases. */
const ORDINARY_MEMORY = -1;

/** When somebody who looks still at the same messages is told of them, in milliseconds. */
const LOOK_AGAIN_MS = 50;

export interface RdmaOutboundInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  readonly slab: Slab;
  readonly description: ConnectionDescription;
  readonly highWaterMarkBytes: number;
  /** Whether a message waits to be submitted again. */
  readonly awaited: () => boolean;
  /** Called when there is memory that a message waited for. */
  readonly roomAvailable: () => void;
}

/**
 * The sending half of a connection. A message takes a slot of the slab; what is longer than a slot stays in registered
 * memory, and the slot tells the peer where. The gates that must be open for it: the high-water mark, the peer's credits, room
 * in the own send queue, which is a free slot, and for a large message the peer's window.
 */
export class RdmaOutbound {
  /** The longest message that goes in a slot. */
  readonly largestPayload: number;
  readonly #engine: RdmaEngine;
  readonly #handle: Handle;
  readonly #slab: Slab;
  readonly #gate: Int32Array;
  readonly #headerBytes: number;
  readonly #highWaterMarkBytes: number;
  readonly #slots: SendSlots;
  readonly #large: LargeSender;
  readonly #memoryWaiter: MemoryWaiter;
  /** What the message wants that found no memory last. */
  #wantedBytes = 0;
  /** Of all that was submitted, what a fence follows. */
  #fenced = 0;
  /** What there was when somebody asked what has left, and since when it has been all. */
  #looked = 0;
  #lookedAt = 0;
  #leased = 0;
  /** Of a layer that may have to send messages again. */
  #takeBack: ((sent: KeptSends) => void) | undefined;
  /** How many of the last messages stay in their slots for it. */
  #kept = 0;
  /** The slots as rooms, each made when it is first asked for. */
  readonly #rooms: OutgoingRoom[] = [];

  constructor(init: RdmaOutboundInit) {
    const { engine, handle, slab, description, highWaterMarkBytes, awaited, roomAvailable } = init;
    this.#memoryWaiter = { wantedBytes: () => (awaited() ? this.#wantedBytes : 0), wake: roomAvailable };
    this.#engine = engine;
    this.#handle = handle;
    this.#slab = slab;
    this.#gate = slab.gate;
    this.#headerBytes = engine.addon.layout.headerBytes;
    this.largestPayload = Math.min(slab.slotBytes, description.peerSlotBytes) - this.#headerBytes;
    this.#highWaterMarkBytes = highWaterMarkBytes;
    this.#slots = new SendSlots(slab.sendSlots);
    this.#large = new LargeSender({
      engine,
      handle,
      windowBytes: description.peerWindowBytes,
      leaseLimitBytes: engine.options.largeMemoryBytes,
      mayBorrow: !description.forkHidesPages,
      sent: { reclaim: () => this.#reclaimLarge(), watch: () => this.wait() },
    });
  }

  /** Large messages that the peer has still to read. */
  get unread(): boolean {
    return this.#large.unreadBytes > 0;
  }

  /** Memory that is registered beside the slab. */
  get registeredBytes(): number {
    return this.#large.registeredBytes;
  }

  /** What `Connection._submit` is to do. */
  submit(data: Uint8Array, lease: OutgoingLease | undefined, mayBorrow: boolean): boolean | Promise<void> {
    if (!this.#mayPost()) return false;
    if (this.#kept > 0) this.giveBackSent();
    const bytes = data.length; // its byteLength, which takes four times as long to ask for
    if (bytes > this.largestPayload) return this.#submitLarge(data, lease, mayBorrow);

    let slot: number;
    if (lease !== undefined && lease.token >= 0) {
      slot = lease.token;
      this.#leased--;
    } else {
      if (!this.#hasFreeSlot()) return false;
      slot = this.#slots.take();
      if (bytes > 0) set.call(this.#slab.bytes, data, this.#slab.sendBase + slot * this.#slab.slotBytes);
      // A large lease that was shortened so much.
      if (lease !== undefined && lease.token < ORDINARY_MEMORY) this.#large.endLease(lease.token);
    }
    this.#slots.submit(slot, bytes + this.#headerBytes);
    this.#engine.submitSend(this.#handle, slot, bytes);
    return true;
  }

  /** What `Connection._submitBehind` is to do with what goes in a slot. */
  submitBehind(head: MessageHead, headerBytes: number, data: Uint8Array): boolean {
    if (!this.#mayPost() || !this.#hasFreeSlot()) return false;
    if (this.#kept > 0) this.giveBackSent();
    const slot = this.#slots.take();
    const start = this.#slab.sendBase + slot * this.#slab.slotBytes;
    copyHead(head, headerBytes, this.#slab, start);
    this.#submitParts(slot, start, headerBytes, data);
    return true;
  }

  /** What `Connection._submitBehindWords` is to do with what goes in a slot. */
  submitBehindWords(a: number, b: number, c: number, d: number, data: Uint8Array): number {
    if (!this.#mayPost() || !this.#hasFreeSlot()) return OWN_NOT_TAKEN;
    const slot = this.#slots.take();
    const { words, sendBase, slotBytes } = this.#slab;
    const start = sendBase + slot * slotBytes;
    const at = start / 4; // not shifted: it may be beyond 2^31
    // `| 0`: see "Code that runs for each message" in CONTRIBUTING.md.
    words[at] = a | 0;
    words[at + 1] = b | 0;
    words[at + 2] = c | 0;
    words[at + 3] = d | 0;
    this.#submitParts(slot, start, OWN_WORDS_BYTES, data);
    if (this.#takeBack === undefined) return OWN_NOT_KEPT;
    this.#kept++;
    return OWN_KEPT;
  }

  /** What `Connection.keepSent` is to do. */
  keepSent(takeBack: (sent: KeptSends) => void): void {
    this.#takeBack = takeBack;
  }

  /** What `Connection.giveBackSent` is to do. */
  giveBackSent(): void {
    const count = this.#kept;
    if (count === 0) return;
    this.#kept = 0;
    const { bytes, sendBase, slotBytes } = this.#slab;
    this.#takeBack?.({
      count,
      at: (index) => {
        const start = sendBase + this.#slots.slotOf(count - index) * slotBytes;
        return bytes.subarray(start, start + this.#slots.bytesOf(count - index) - this.#headerBytes);
      },
    });
  }

  /** The header stands in the slot already. */
  #submitParts(slot: number, start: number, headerBytes: number, data: Uint8Array): void {
    const { length } = data;
    if (length > 0) set.call(this.#slab.bytes, data, start + headerBytes);
    this.#slots.submit(slot, headerBytes + length + this.#headerBytes);
    this.#engine.submitSend(this.#handle, slot, headerBytes + length);
  }

  /** A slot to write a message in. Whether that may go is seen when it is written. */
  reserve(): OutgoingRoom | undefined {
    if (this.#slots.freeCount === 0) this.reclaim();
    return this.#slots.freeCount > 0 ? this.#roomOf(this.#slots.take()) : undefined;
  }

  submitReserved({ token }: OutgoingRoom, bytes: number): boolean {
    if (!this.#mayPost()) return false;
    if (this.#kept > 0) this.giveBackSent();
    this.#slots.submit(token, bytes + this.#headerBytes);
    this.#engine.submitSend(this.#handle, token, bytes);
    return true;
  }

  /** Answers whether a message may have waited for the slot. */
  unreserve({ token }: OutgoingRoom): boolean {
    this.#slots.give(token);
    return this.#gate[WANT_WRITABLE] === 1;
  }

  #roomOf(slot: number): OutgoingRoom {
    let room = this.#rooms[slot];
    if (room === undefined) {
      const { slab, sendBase, slotBytes } = this.#slab;
      const start = sendBase + slot * slotBytes;
      const bytes = Buffer.from(slab, start, this.largestPayload);
      room = { bytes, words: new Int32Array(slab, start, OWN_WORDS_BYTES / 4), token: slot };
      this.#rooms[slot] = room;
    }
    return room;
  }

  /** Whether the high-water mark and the peer's credits let a message go. If not, the engine tells when they do. */
  #mayPost(): boolean {
    if (this.#unfinishedBytes() >= this.#highWaterMarkBytes) {
      this.reclaim();
      if (this.#unfinishedBytes() >= this.#highWaterMarkBytes) {
        this.#fence();
        return false;
      }
    }
    return (((this.#gate[LIMIT] as number) - this.#slots.submitted) | 0) > 0 || this.wait();
  }

  #hasFreeSlot(): boolean {
    if (this.#slots.freeCount === 0) this.reclaim();
    return this.#slots.freeCount > 0 || this.wait();
  }

  #submitLarge(
    data: Uint8Array,
    lease: OutgoingLease | undefined,
    mayBorrow: boolean,
  ): boolean | Promise<void> {
    const bytes = data.byteLength;
    this.reclaim();
    if (this.#slots.freeCount === 0 || !this.#large.hasWindowFor(bytes)) return this.wait();
    let message: LargeMessage;
    try {
      message = this.#large.prepare(data, lease, mayBorrow);
    } catch (error) {
      // Where all connections together have as much as they may, one of them will give some back.
      if ((error as VerbmqError).reason === LIMIT_REACHED) {
        this.#wantedBytes = bufferBytesFor(bytes);
        this.#engine.poolMemory.wait('out', this.#memoryWaiter);
        return this.wait();
      }
      // What the peer reads gives memory back.
      if (this.unread) return this.wait();
      if (mayBorrow) return Promise.reject(error);
      throw error;
    }
    const slot = this.#slots.take();
    this.#slots.submit(slot, this.#headerBytes);
    this.#engine.submitAdvertise(this.#handle, slot, message.region, message.offset, bytes);
    const taken = this.#large.advertised(message);
    if (this.#large.awaited) this.wait();
    return taken;
  }

  /**
   * A message has left when the peer's device has it, which is known of the last ones when a later one has, or a fence. Who
   * looks again later while nothing is sent gets one; a look between messages costs no frame.
   */
  bufferedBytes(): number {
    this.reclaim();
    const bytes = this.#unfinishedBytes();
    if (bytes === 0) return 0;
    const now = performance.now();
    if (this.#looked !== this.#slots.submitted) {
      this.#looked = this.#slots.submitted;
      this.#lookedAt = now;
    } else if (now - this.#lookedAt >= LOOK_AGAIN_MS) this.#fence();
    return bytes;
  }

  /** What `Connection._awaitLeaving` is to do. */
  awaitLeaving(): void {
    this.#fence();
  }

  allocate(owner: Connection, bytes: number): OutgoingLease {
    if (this.#slots.freeCount === 0 || bytes > this.largestPayload) this.reclaim();
    if (bytes > this.largestPayload) {
      const { data, token } = this.#large.lease(bytes);
      return new OutgoingLease(data, owner, token);
    }
    // Half of the slots stay for messages that are not leased, so that leases that are kept cannot stop them.
    if (this.#slots.freeCount === 0 || this.#leased >= this.#slab.sendSlots / 2) {
      return new OutgoingLease(Buffer.allocUnsafeSlow(bytes), owner, ORDINARY_MEMORY);
    }
    const slot = this.#slots.take();
    this.#leased++;
    return new OutgoingLease(this.#slab.outgoing(slot, bytes), owner, slot);
  }

  /** A lease was given back. Answers whether a message may have waited for that. */
  free({ token }: OutgoingLease): boolean {
    if (token === ORDINARY_MEMORY) return false;
    if (token < ORDINARY_MEMORY) {
      this.#large.endLease(token);
      return false;
    }
    this.#leased--;
    this.#slots.give(token);
    return this.#gate[WANT_WRITABLE] === 1;
  }

  /** Takes note of what has left, and been read, since the last time. Slots come free only here, when nothing stays in them. */
  reclaim(): void {
    this.giveBackSent();
    this.#slots.reclaim(this.#gate[COMPLETED] as number);
    this.#reclaimLarge();
    if (this.#large.awaited) this.wait();
  }

  #reclaimLarge(): void {
    this.#large.reclaim(this.#gate[LARGE_READ] as number, this.#gate[LARGE_RELEASED] as number);
  }

  /** Asks to be told when a gate opens. */
  wait(): false {
    this.#gate[WANT_WRITABLE] = 1;
    return false;
  }

  /** The connection has failed; `end` follows. */
  fail(error: VerbmqError): void {
    this.#engine.poolMemory.leave('out', this.#memoryWaiter);
    this.#large.fail(error);
  }

  /** The engine holds nothing of the connection any more. */
  end(): void {
    this.reclaim();
    this.#engine.poolMemory.leave('out', this.#memoryWaiter);
    this.#large.end();
  }

  /** Messages that were submitted and are not complete, with their headers. */
  #unfinishedBytes(): number {
    return this.#slots.unfinishedBytes + this.#large.unreadBytes;
  }

  /**
   * Asks to be told when what is submitted now is complete: most sends are not signalled. One fence is under way at a time: who waits
   * asks again when it is told.
   */
  #fence(): void {
    this.wait();
    const { submitted } = this.#slots;
    const underWay = ((this.#fenced - (this.#gate[COMPLETED] as number)) | 0) > 0;
    if (underWay || this.#fenced === submitted) return;
    this.#fenced = submitted;
    this.#engine.submitFence(this.#handle);
  }
}
