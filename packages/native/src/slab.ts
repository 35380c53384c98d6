import { endianness } from 'node:os';
import { markReused } from '@verbmq/core/transport-kit';
import type { Addon, ConnectionMemory } from './binding.js';
import type { SlotOptions } from './options.js';
import type { PoolShare } from './receive-pool.js';
import { ReceiveSlots } from './receive-slots.js';
import { allocatePages } from './whole-pages.js';

/** Whether words of this host lie in memory as they do on the wire. If not, as on IBM Z, headers take the way of all bytes. */
export const WORDS_AS_ON_WIRE = endianness() === 'LE';

/**
 * The memory of one connection: receive slots, send slots, and a page for control frames, in one ArrayBuffer. It is
 * allocated here and not in C++, because some embedders forbid memory of foreign origin; the engine registers it,
 * and references it until it has deregistered it. Views of it are made without a call into the addon.
 */
export class Slab implements ConnectionMemory {
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
  readonly share: PoolShare | undefined;
  /** Where messages arrive: in this slab, or in that of the pool. */
  readonly receives: ReceiveSlots;
  /** Where the payload of the first send slot starts. */
  readonly sendBase: number;
  /** All of the slab. */
  readonly bytes: Uint8Array;
  /** The same as words in the host's order. A payload begins at a multiple of 16 bytes. */
  readonly words: Int32Array;

  /** What a connection with these options registers, where it has receive slots of its own or shares those of others. */
  static bytesFor(addon: Addon, options: SlotOptions, sharesReceives = false): number {
    const sendBytes = options.sendSlots * options.slotBytes + addon.layout.controlAreaBytes;
    return (sharesReceives ? 0 : receiveBytesOf(addon, options)) + sendBytes;
  }

  constructor(
    addon: Addon,
    options: SlotOptions & { receiveWindowBytes: number },
    maxMessageBytes: number,
    share?: PoolShare,
  ) {
    const { headerBytes, gateWords } = addon.layout;
    const sharesReceives = share !== undefined;
    const receiveBytes = sharesReceives ? 0 : receiveBytesOf(addon, options);
    const total = Slab.bytesFor(addon, options, sharesReceives);
    this.sharesReceives = sharesReceives;
    this.share = share;
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
    this.sendBase = this.slabOffset + receiveBytes + headerBytes;
    this.bytes = new Uint8Array(this.slab);
    this.words = new Int32Array(this.slab);
    this.receives =
      share?.pool.receives ??
      new ReceiveSlots({
        memory,
        base: start + headerBytes,
        slotBytes: options.slotBytes,
        slots: options.receiveSlots + addon.layout.controlReceiveSlots,
      });
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

  /** The payload of an outgoing message in `slot`. */
  outgoing(slot: number, bytes: number): Uint8Array {
    return new Uint8Array(this.slab, this.sendBase + slot * this.slotBytes, bytes);
  }
}

function receiveBytesOf({ layout }: Addon, { slotBytes, receiveSlots }: SlotOptions): number {
  return (receiveSlots + layout.controlReceiveSlots) * slotBytes;
}
