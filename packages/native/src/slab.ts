import { markReused, type ReceiveMemory } from '@verbmq/core/transport-kit';
import type { Addon, ConnectionMemory } from './binding.js';
import type { SlotOptions } from './options.js';
import type { ReceivePool } from './receive-pool.js';
import { SlotViews } from './slot-views.js';
import { allocatePages } from './whole-pages.js';

/**
 * The memory of one connection: receive slots, send slots, and a page for control frames, in one ArrayBuffer. It is
 * allocated here and not in C++, because some embedders forbid memory of foreign origin; the engine registers it,
 * and references it until it has deregistered it. Views of it are made without a call into the addon.
 */
export class Slab implements ConnectionMemory, ReceiveMemory {
  readonly slab: ArrayBuffer;
  readonly slabOffset: number;
  readonly gate: Int32Array;
  readonly slotBytes: number;
  readonly dataSlots: number;
  readonly sendSlots: number;
  readonly maxMessageBytes: number;
  readonly windowBytes: number;
  readonly sharesReceives: boolean;
  /** Where the receive slots are shared. */
  readonly pool: ReceivePool | undefined;
  /** Where the payload of the first receive slot and of the first send slot start. */
  readonly receiveBase: number;
  readonly sendBase: number;
  /** All of the slab. */
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly #received: SlotViews;
  readonly #parts: SlotViews;

  /** What a connection with these options registers, where it has receive slots of its own or shares those of others. */
  static bytesFor(addon: Addon, options: SlotOptions, sharesReceives = false): number {
    const sendBytes = options.sendSlots * options.slotBytes + addon.layout.controlAreaBytes;
    return (sharesReceives ? 0 : receiveBytesOf(addon, options)) + sendBytes;
  }

  constructor(
    addon: Addon,
    options: SlotOptions & { receiveWindowBytes: number },
    maxMessageBytes: number,
    pool?: ReceivePool,
  ) {
    const { headerBytes, gateWords } = addon.layout;
    const sharesReceives = pool !== undefined;
    const receiveBytes = sharesReceives ? 0 : receiveBytesOf(addon, options);
    const total = Slab.bytesFor(addon, options, sharesReceives);
    this.sharesReceives = sharesReceives;
    this.pool = pool;
    const { memory, start } = allocatePages(addon, total);
    markReused(memory);
    this.slab = memory;
    this.slabOffset = start;
    this.gate = new Int32Array(gateWords);
    this.slotBytes = options.slotBytes;
    this.dataSlots = options.receiveSlots;
    this.sendSlots = options.sendSlots;
    this.maxMessageBytes = maxMessageBytes;
    this.windowBytes = options.receiveWindowBytes;
    this.receiveBase = this.slabOffset + headerBytes;
    this.sendBase = this.slabOffset + receiveBytes + headerBytes;
    this.bytes = new Uint8Array(this.slab);
    this.view = new DataView(this.slab);
    const slots = sharesReceives ? 0 : options.receiveSlots + addon.layout.controlReceiveSlots;
    this.#received = new SlotViews(this.slab, slots);
    this.#parts = new SlotViews(this.slab, slots);
  }

  get buffer(): ArrayBuffer {
    return this.slab;
  }

  /** What the engine is given of it. */
  get memory(): ConnectionMemory {
    const { slab, slabOffset, gate, slotBytes, dataSlots, sendSlots } = this;
    const { sharesReceives, maxMessageBytes, windowBytes } = this;
    return {
      slab,
      slabOffset,
      gate,
      slotBytes,
      dataSlots,
      sendSlots,
      sharesReceives,
      maxMessageBytes,
      windowBytes,
    };
  }

  part(slot: number, start: number, bytes: number): Uint8Array {
    return this.#parts.of(slot, start, bytes);
  }

  /** The payload of a message that arrived in `slot`. */
  received(slot: number, bytes: number): Uint8Array {
    return this.#received.of(slot, this.receivedAt(slot), bytes);
  }

  /** Where in `bytes` that payload begins. */
  receivedAt(slot: number): number {
    return this.receiveBase + slot * this.slotBytes;
  }

  /** The payload of an outgoing message in `slot`. */
  outgoing(slot: number, bytes: number): Uint8Array {
    return new Uint8Array(this.slab, this.sendBase + slot * this.slotBytes, bytes);
  }
}

function receiveBytesOf({ layout }: Addon, { slotBytes, receiveSlots }: SlotOptions): number {
  return (receiveSlots + layout.controlReceiveSlots) * slotBytes;
}
