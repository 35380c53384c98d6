import { markReused } from '@verbmq/core/transport-kit';
import type { Handle } from './binding.js';
import type { Direction, IdleMemory } from './pool-memory.js';
import type { RdmaEngine } from './rdma-engine.js';
import { allocatePages } from './whole-pages.js';

/** The smallest buffer. */
const SMALLEST_BYTES = 8 * 1024;
/** Buffers up to a quarter of this share a slab of about this size; larger ones have a slab each. */
const SHARED_SLAB_BYTES = 1024 * 1024;
/** A slab that was not used from one sweep to the next one is given back, in milliseconds. */
const SWEEP_INTERVAL_MS = 5000;

/** Memory that was allocated and registered in one piece, and is cut into buffers of one size. */
interface PoolSlab {
  readonly memory: ArrayBuffer;
  /** The first page boundary in the memory: where the registered region starts. */
  readonly start: number;
  readonly region: number;
  readonly bytes: number;
  readonly bufferBytes: number;
  used: number;
  touched: boolean;
  /** In the transport's account while nothing of it is used. */
  readonly idle: IdleMemory;
}

/** Registered memory for one large message. */
export interface PooledBuffer {
  readonly slab: PoolSlab;
  /** From the start of the region, in bytes. */
  readonly offset: number;
  /** The application has it, and gives it back when it likes. */
  held: boolean;
}

/** The first `bytes` bytes of a buffer. */
export function viewOf({ slab, offset }: PooledBuffer, bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(slab.memory, slab.start + offset, bytes);
}

/**
 * Registered memory for the large messages of one connection in one direction. Memory is registered when it is first
 * needed and used again: neither costs a call into the addon then. What is not used for some seconds is given back, and
 * what is not used at all beyond `idleMemoryBytes` of the transport at once.
 *
 * How much is used, its users bound for each connection (windows, marks, limits of leases), and `PoolMemory` for all.
 */
export class BufferPool {
  readonly #engine: RdmaEngine;
  readonly #handle: Handle;
  readonly #uses: number;
  readonly #direction: Direction | undefined;
  readonly #reclaim: () => void;
  readonly #slabs = new Set<PoolSlab>();
  /** By the size of the buffers. */
  readonly #free = new Map<number, PooledBuffer[]>();
  #bytes = 0;
  #usedBytes = 0;
  #heldBytes = 0;
  #sweep: NodeJS.Timeout | undefined;
  #closed = false;

  /**
   * @param uses what the memory is for: bits of `MemoryUse`
   * @param direction which large messages it is for, where it counts among those of the transport
   * @param reclaim gives what has come free without a word
   */
  constructor(
    engine: RdmaEngine,
    handle: Handle,
    uses: number,
    direction?: Direction,
    reclaim: () => void = () => {},
  ) {
    this.#engine = engine;
    this.#handle = handle;
    this.#uses = uses;
    this.#direction = direction;
    this.#reclaim = reclaim;
  }

  /** Bytes that are registered, used or not. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * A buffer of at least `bytes` bytes; its content is not initialised.
   * @param held see `PooledBuffer`
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` or `ERR_VERBMQ_MEMLOCK` when memory cannot be had.
   */
  take(bytes: number, held = false): PooledBuffer {
    const bufferBytes = bufferBytesFor(bytes);
    this.#count(bufferBytes, held);
    let buffer: PooledBuffer;
    try {
      buffer = this.#free.get(bufferBytes)?.pop() ?? this.#grow(bufferBytes);
    } catch (error) {
      if (held) this.#discountHeld(bufferBytes);
      this.#discount(bufferBytes);
      throw error;
    }
    const { slab } = buffer;
    if (slab.used++ === 0) this.#engine.poolMemory.isNotIdle(slab.idle);
    slab.touched = true;
    buffer.held = held;
    return buffer;
  }

  /** The application keeps a buffer that it was only to see. `false`: it keeps as much as it may. */
  hold(buffer: PooledBuffer): boolean {
    if (this.#closed) return true;
    const { bufferBytes } = buffer.slab;
    if (this.#direction !== undefined && !this.#engine.poolMemory.hold(this.#direction, bufferBytes))
      return false;
    buffer.held = true;
    this.#heldBytes += bufferBytes;
    return true;
  }

  /** The application has sent what is in it. */
  unhold(buffer: PooledBuffer): void {
    if (this.#closed || !buffer.held) return;
    buffer.held = false;
    this.#discountHeld(buffer.slab.bufferBytes);
  }

  give(buffer: PooledBuffer): void {
    if (this.#closed) return;
    this.unhold(buffer);
    const { slab } = buffer;
    slab.touched = true;
    this.#free.get(slab.bufferBytes)?.push(buffer);
    if (--slab.used === 0) this.#engine.poolMemory.becameIdle(slab.idle);
    this.#discount(slab.bufferBytes);
  }

  /** Gives back what is not used at this moment. */
  freeUnused(): void {
    for (const slab of this.#slabs) if (slab.used === 0) this.#drop(slab);
  }

  /** The connection has ended, and with it every registration. Buffers that are still held stay ordinary memory. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    for (const { idle } of this.#slabs) this.#engine.poolMemory.isNotIdle(idle);
    this.#discountHeld(this.#heldBytes);
    this.#discount(this.#usedBytes);
    this.#engine.pools.delete(this);
    this.#slabs.clear();
    this.#free.clear();
    this.#bytes = 0;
  }

  #count(bytes: number, held: boolean): void {
    if (this.#direction !== undefined) this.#engine.poolMemory.use(this.#direction, bytes, held);
    this.#usedBytes += bytes;
    if (held) this.#heldBytes += bytes;
  }

  #discountHeld(bytes: number): void {
    this.#heldBytes -= bytes;
    if (this.#direction !== undefined) this.#engine.poolMemory.unhold(this.#direction, bytes);
  }

  #discount(bytes: number): void {
    this.#usedBytes -= bytes;
    if (this.#direction !== undefined) this.#engine.poolMemory.unuse(this.#direction, bytes);
  }

  #grow(bufferBytes: number): PooledBuffer {
    let slab: PoolSlab;
    try {
      slab = this.#newSlab(bufferBytes);
    } catch (error) {
      // Memory that lies idle, be it another connection's, must not be what is missing here.
      if (!this.#engine.freeUnusedMemory()) throw error;
      slab = this.#newSlab(bufferBytes);
    }
    this.#slabs.add(slab);
    this.#bytes += slab.bytes;
    this.#engine.pools.add(this);
    this.#sweep ??= setInterval(() => this.#freeUntouched(), SWEEP_INTERVAL_MS).unref();
    const free = this.#free.get(bufferBytes) ?? [];
    this.#free.set(bufferBytes, free);
    for (let offset = slab.bytes - bufferBytes; offset > 0; offset -= bufferBytes)
      free.push({ slab, offset, held: false });
    return { slab, offset: 0, held: false };
  }

  #newSlab(bufferBytes: number): PoolSlab {
    const buffers = Math.max(1, Math.floor(SHARED_SLAB_BYTES / bufferBytes / 4) * 4);
    const bytes = buffers * bufferBytes;
    const { memory, start } = allocatePages(this.#engine.addon, bytes);
    markReused(memory);
    const { region } = this.#engine.registerMemory(this.#handle, memory, start, bytes, this.#uses);
    const slab: PoolSlab = {
      memory,
      start,
      region,
      bytes,
      bufferBytes,
      used: 0,
      touched: true,
      idle: { bytes, drop: () => this.#drop(slab) },
    };
    return slab;
  }

  #freeUntouched(): void {
    this.#reclaim();
    for (const slab of this.#slabs) {
      if (slab.used === 0 && !slab.touched) this.#drop(slab);
      slab.touched = false;
    }
  }

  #drop(slab: PoolSlab): void {
    this.#engine.poolMemory.isNotIdle(slab.idle);
    this.#slabs.delete(slab);
    this.#bytes -= slab.bytes;
    const free = this.#free.get(slab.bufferBytes) ?? [];
    this.#free.set(
      slab.bufferBytes,
      free.filter((buffer) => buffer.slab !== slab),
    );
    this.#engine.deregisterMemory(this.#handle, slab.region);
    if (this.#slabs.size > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
    this.#engine.pools.delete(this);
  }
}

/** The size of the buffers for messages of `bytes` bytes: four sizes between each power of two and the next. */
export function bufferBytesFor(bytes: number): number {
  if (bytes <= SMALLEST_BYTES) return SMALLEST_BYTES;
  const step = 2 ** (29 - Math.clz32(bytes - 1));
  return Math.ceil(bytes / step) * step;
}
