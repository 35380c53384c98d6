import type { ReceiveMemory } from '@verbmq/core/transport-kit';
import { SlotViews } from './slot-views.js';

export interface ReceiveSlotsInit {
  readonly memory: ArrayBuffer;
  /** Where the payload of the first slot starts in it, in bytes. */
  readonly base: number;
  /** From one slot to the next. */
  readonly slotBytes: number;
  readonly slots: number;
}

/** Where messages arrive: the slots of one connection, or those that several share. */
export class ReceiveSlots implements ReceiveMemory {
  readonly buffer: ArrayBuffer;
  readonly bytes: Uint8Array;
  readonly words: Int32Array;
  readonly #base: number;
  readonly #slotBytes: number;
  readonly #received: SlotViews;
  readonly #parts: SlotViews;

  constructor({ memory, base, slotBytes, slots }: ReceiveSlotsInit) {
    this.buffer = memory;
    this.bytes = new Uint8Array(memory);
    this.words = new Int32Array(memory);
    this.#base = base;
    this.#slotBytes = slotBytes;
    this.#received = new SlotViews(memory, slots);
    this.#parts = new SlotViews(memory, slots);
  }

  /** Where the payload of a message that arrived in `slot` begins. */
  startOf(slot: number): number {
    return this.#base + slot * this.#slotBytes;
  }

  /** All of that payload. */
  received(slot: number, bytes: number): Uint8Array {
    return this.#received.of(slot, this.startOf(slot), bytes);
  }

  part(slot: number, start: number, bytes: number): Uint8Array {
    return this.#parts.of(slot, start, bytes);
  }
}
