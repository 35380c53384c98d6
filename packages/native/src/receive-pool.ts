import { markReused } from '@verbmq/core/transport-kit';
import type { Addon, Handle, ReceivePoolMemory } from './binding.js';
import type { SharedReceiveQueueOptions } from './options.js';
import type { RdmaEngine } from './rdma-engine.js';
import { ReceiveSlots } from './receive-slots.js';
import { allocatePages } from './whole-pages.js';

/** Receive slots that the accepted connections of one device share. The engine says which of them may use how many. */
export class ReceivePool {
  /** Names it in releases. */
  readonly number: number;
  readonly receives: ReceiveSlots;
  /** Whose message a slot holds; 0 where it holds none. */
  readonly #holders: Int32Array;

  constructor(addon: Addon, number: number, memory: ReceivePoolMemory) {
    this.number = number;
    const { slab, slabOffset, slotBytes, slots } = memory;
    this.receives = new ReceiveSlots({
      memory: slab,
      base: slabOffset + addon.layout.headerBytes,
      slotBytes,
      slots,
    });
    this.#holders = new Int32Array(slots);
  }

  hold(slot: number, holder: Handle): void {
    this.#holders[slot] = holder;
  }

  /** Whether `holder` had the slot until now. */
  letGo(slot: number, holder: Handle): boolean {
    if (this.#holders[slot] !== holder) return false;
    this.#holders[slot] = 0;
    return true;
  }

  /** The slots that hold messages of `holder`. */
  heldBy(holder: Handle): number[] {
    const held: number[] = [];
    for (let slot = this.#holders.indexOf(holder); slot >= 0; slot = this.#holders.indexOf(holder, slot + 1))
      held.push(slot);
    return held;
  }
}

/** The pools of one engine, by device. Each lives as long as connections share it. */
export class ReceivePools {
  readonly #engine: RdmaEngine;
  readonly #options: SharedReceiveQueueOptions;
  readonly #pools = new Map<number, { readonly pool: ReceivePool; users: number }>();
  /** Frees what a connection held that ended with messages which nobody has read. */
  readonly #forgotten = new FinalizationRegistry<{ pool: ReceivePool; handle: Handle }>(
    ({ pool, handle }) => {
      for (const slot of pool.heldBy(handle)) this.release(pool, handle, slot);
    },
  );

  constructor(engine: RdmaEngine, options: SharedReceiveQueueOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /**
   * The pool for a request, to be left again.
   * @throws VerbmqError or what the addon throws
   */
  join(request: Handle): ReceivePool {
    let entry = this.#pools.get(this.#engine.native.joinReceivePool(request));
    if (entry === undefined) {
      const pool = this.#make(request);
      entry = { pool, users: 0 };
      this.#pools.set(pool.number, entry);
    }
    entry.users++;
    return entry.pool;
  }

  /** The engine holds nothing of the connection any more. `owner` is what a reader of its messages still refers to. */
  leave(pool: ReceivePool, handle: Handle, owner: object): void {
    const entry = this.#pools.get(pool.number);
    if (entry !== undefined && --entry.users === 0) this.#pools.delete(pool.number);
    if (pool.heldBy(handle).length > 0) this.#forgotten.register(owner, { pool, handle });
  }

  release(pool: ReceivePool, handle: Handle, slot: number): void {
    if (pool.letGo(slot, handle)) this.#engine.submitRelease(handle, slot, pool.number);
  }

  #make(request: Handle): ReceivePool {
    const { addon, native, options } = this.#engine;
    const { memory: slab, start } = allocatePages(addon, this.#options.slots * options.slotBytes);
    markReused(slab);
    const memory: ReceivePoolMemory = {
      slab,
      slabOffset: start,
      slotBytes: options.slotBytes,
      ...this.#options,
    };
    return new ReceivePool(addon, native.makeReceivePool(request, memory), memory);
  }
}
