import { markReused } from '@verbmq/core/transport-kit';
import type { Addon, Handle, ReceivePoolMemory } from './binding.js';
import type { SharedReceiveQueueOptions } from './options.js';
import type { RdmaEngine } from './rdma-engine.js';
import { ReceiveSlots } from './receive-slots.js';
import { allocatePages } from './whole-pages.js';

/** Names no connection. */
const NO_HANDLE: Handle = 0;

/** Receive slots that the accepted connections of one device share. The engine says which of them may use how many. */
class ReceivePool {
  /** Names it in releases. */
  readonly number: number;
  readonly receives: ReceiveSlots;
  /** Whose message a slot holds. */
  readonly #holders: (PoolShare | undefined)[];

  constructor(addon: Addon, number: number, memory: ReceivePoolMemory) {
    this.number = number;
    const { slab, slabOffset, slotBytes, slots } = memory;
    this.receives = new ReceiveSlots({
      memory: slab,
      base: slabOffset + addon.layout.headerBytes,
      slotBytes,
      slots,
    });
    this.#holders = new Array(slots).fill(undefined);
  }

  hold(slot: number, holder: PoolShare): void {
    this.#holders[slot] = holder;
  }

  /** Whether `holder` had the slot until now. */
  letGo(slot: number, holder: PoolShare): boolean {
    if (this.#holders[slot] !== holder) return false;
    this.#holders[slot] = undefined;
    return true;
  }

  /** The slots that hold messages of `holder`. */
  heldBy(holder: PoolShare): number[] {
    const held: number[] = [];
    for (let slot = this.#holders.indexOf(holder); slot >= 0; slot = this.#holders.indexOf(holder, slot + 1))
      held.push(slot);
    return held;
  }
}

/**
 * What one connection has of a pool: the slots that hold its messages. They may be held for longer than it lives, and even until its
 * handle is another one's.
 */
export class PoolShare {
  readonly pool: ReceivePool;
  readonly #engine: RdmaEngine;
  #handle: Handle;

  constructor(engine: RdmaEngine, pool: ReceivePool, handle: Handle) {
    this.#engine = engine;
    this.pool = pool;
    this.#handle = handle;
  }

  /** A message has arrived in the slot. */
  hold(slot: number): void {
    this.pool.hold(slot, this);
  }

  /** Nobody needs that message any more. */
  release(slot: number): void {
    if (this.pool.letGo(slot, this)) this.#engine.submitRelease(this.#handle, slot, this.pool.number);
  }

  /** Nobody needs any of its messages any more. */
  releaseAll(): void {
    for (const slot of this.pool.heldBy(this)) this.release(slot);
  }

  /** The engine holds nothing of the connection any more. Answers whether messages of it are still held. */
  end(): boolean {
    this.#handle = NO_HANDLE;
    return this.pool.heldBy(this).length > 0;
  }
}

/** The pools of one engine, by device. Each lives as long as connections share it. */
export class ReceivePools {
  readonly #engine: RdmaEngine;
  readonly #options: SharedReceiveQueueOptions;
  readonly #pools = new Map<number, { readonly pool: ReceivePool; users: number }>();
  /** Frees what a connection held that ended with messages which nobody has read. */
  readonly #forgotten = new FinalizationRegistry<PoolShare>((share) => share.releaseAll());

  constructor(engine: RdmaEngine, options: SharedReceiveQueueOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /**
   * A share for a request, in the pool of its device; to be left again.
   * @throws VerbmqError or what the addon throws
   */
  join(request: Handle): PoolShare {
    let entry = this.#pools.get(this.#engine.native.joinReceivePool(request));
    if (entry === undefined) {
      const pool = this.#make(request);
      entry = { pool, users: 0 };
      this.#pools.set(pool.number, entry);
    }
    entry.users++;
    return new PoolShare(this.#engine, entry.pool, request);
  }

  /** The engine holds nothing of the connection any more. `owner` is what a reader of its messages still refers to. */
  leave(share: PoolShare, owner: object): void {
    const { number } = share.pool;
    const entry = this.#pools.get(number);
    if (entry !== undefined && --entry.users === 0) this.#pools.delete(number);
    if (share.end()) this.#forgotten.register(owner, share);
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
