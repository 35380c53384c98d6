import { markAsUntransferable } from 'node:worker_threads';
import { VerbmqError } from '@verbmq/core';
import { markReused } from '@verbmq/core/transport-kit';
import type { Addon, ConnectionMemory } from './binding.js';
import type { SlotOptions } from './options.js';

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
  /** Where the payload of the first receive slot and of the first send slot start. */
  readonly receiveBase: number;
  readonly sendBase: number;
  /** All of the slab, to copy payloads into it. */
  readonly bytes: Uint8Array;

  /** What a connection with these options registers. */
  static bytesFor({ layout }: Addon, { slotBytes, receiveSlots, sendSlots }: SlotOptions): number {
    return (receiveSlots + layout.controlReceiveSlots + sendSlots) * slotBytes + layout.controlAreaBytes;
  }

  constructor(addon: Addon, options: SlotOptions & { receiveWindowBytes: number }, maxMessageBytes: number) {
    const { pageBytes, headerBytes, controlReceiveSlots, gateWords } = addon.layout;
    const receiveBytes = (options.receiveSlots + controlReceiveSlots) * options.slotBytes;
    const total = Slab.bytesFor(addon, options);
    // Whole pages, shared with nothing else: after a fork, pinned pages may be missing in the child.
    const wholePages = Math.ceil(total / pageBytes) * pageBytes;
    try {
      this.slab = new ArrayBuffer(wholePages + pageBytes);
    } catch (cause) {
      throw new VerbmqError('ERR_VERBMQ_NO_BUFFERS', `${wholePages} bytes of memory cannot be had`, {
        cause,
      });
    }
    // The device writes to this memory: it must not move to another thread with a message that the application posts.
    markAsUntransferable(this.slab);
    markReused(this.slab);
    this.slabOffset = addon.offsetOfPage(this.slab);
    this.gate = new Int32Array(gateWords);
    this.slotBytes = options.slotBytes;
    this.dataSlots = options.receiveSlots;
    this.sendSlots = options.sendSlots;
    this.maxMessageBytes = maxMessageBytes;
    this.windowBytes = options.receiveWindowBytes;
    this.receiveBase = this.slabOffset + headerBytes;
    this.sendBase = this.slabOffset + receiveBytes + headerBytes;
    this.bytes = new Uint8Array(this.slab);
  }

  /** What the engine is given of it. */
  get memory(): ConnectionMemory {
    const { slab, slabOffset, gate, slotBytes, dataSlots, sendSlots, maxMessageBytes, windowBytes } = this;
    return { slab, slabOffset, gate, slotBytes, dataSlots, sendSlots, maxMessageBytes, windowBytes };
  }

  /** The payload of a message that arrived in `slot`. */
  received(slot: number, bytes: number): Uint8Array {
    return new Uint8Array(this.slab, this.receiveBase + slot * this.slotBytes, bytes);
  }

  /** The payload of an outgoing message in `slot`. */
  outgoing(slot: number, bytes: number): Uint8Array {
    return new Uint8Array(this.slab, this.sendBase + slot * this.slotBytes, bytes);
  }
}
