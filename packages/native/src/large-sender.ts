import { type OutgoingLease, VerbmqError } from '@verbmq/core';
import { Fifo } from '@verbmq/core/transport-kit';
import { type Handle, MemoryUse } from './binding.js';
import { BufferPool, bufferBytesFor, type PooledBuffer, viewOf } from './buffer-pool.js';
import type { SentMemory } from './pool-memory.js';
import type { RdmaEngine } from './rdma-engine.js';

/**
 * From this length on, memory of the caller's is registered where it lies, for as long as a device needs it; what is
 * shorter is copied to or from memory that is registered already. docs/memory.md tells how it was measured.
 */
export const BORROW_BYTES = 512 * 1024;

/** Whether memory stays where it is, so that a device may work on it. */
export function isLendable({ buffer }: Uint8Array): boolean {
  return buffer instanceof ArrayBuffer && (buffer as { resizable?: boolean }).resizable !== true;
}

/** The names of leases are negative, so that they are not those of slots; −1 is taken too. */
const FIRST_TOKEN = -2;

export interface LargeSenderInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  /** How much the peer lets this side advertise. */
  readonly windowBytes: number;
  /** How much the application may lease and not send. */
  readonly leaseLimitBytes: number;
  /** Whether memory of the application's own may be registered. */
  readonly mayBorrow: boolean;
  /** How others learn what the peer has read. */
  readonly sent: SentMemory;
}

/** A large message in memory that the peer may read. */
export interface LargeMessage {
  readonly region: number;
  readonly offset: number;
  readonly bytes: number;
  /** Memory of the pool. Without it the memory is the caller's, who waits. */
  readonly buffer: PooledBuffer | undefined;
}

interface Advertised extends LargeMessage {
  readonly resolve?: () => void;
  readonly reject?: (error: VerbmqError) => void;
}

/**
 * Messages longer than a slot on their way out. They lie in registered memory until the peer has read them: in a buffer that
 * the application leased and filled, in memory of its own that it lends, or in a copy.
 */
export class LargeSender {
  readonly #init: LargeSenderInit;
  readonly #pool: BufferPool;
  readonly #leases = new Map<number, PooledBuffer>();
  #nextToken = FIRST_TOKEN;
  #leasedBytes = 0;
  /** Not read yet, and lengths of those that are not released yet. */
  readonly #unread = new Fifo<Advertised>();
  readonly #unreleased = new Fifo<number>();
  /** As the engine counts them. */
  #read = 0;
  #released = 0;
  #windowUsed = 0;
  #unreadBytes = 0;
  #borrowedBytes = 0;
  #error: VerbmqError | undefined;

  constructor(init: LargeSenderInit) {
    this.#init = init;
    const { engine, handle, sent } = init;
    this.#pool = new BufferPool(engine, handle, MemoryUse.remoteRead, 'out', sent.reclaim);
  }

  /** Bytes that the peer has still to read. */
  get unreadBytes(): number {
    return this.#unreadBytes;
  }

  get registeredBytes(): number {
    return this.#pool.bytes + this.#borrowedBytes;
  }

  /** Whether somebody waits for the peer to read, be it to send on another connection. */
  get awaited(): boolean {
    return (
      this.#borrowedBytes > 0 || (this.#unreadBytes > 0 && this.#init.engine.poolMemory.isAwaited('out'))
    );
  }

  /** Whether the peer's window has room. A message longer than the window goes when nothing else is in it. */
  hasWindowFor(bytes: number): boolean {
    return this.#windowUsed === 0 || this.#windowUsed + bytes <= this.#init.windowBytes;
  }

  /**
   * The memory of a lease, and its name.
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` or `ERR_VERBMQ_MEMLOCK`
   */
  lease(bytes: number): { readonly data: Uint8Array; readonly token: number } {
    const limit = this.#init.leaseLimitBytes;
    if (this.#leasedBytes + bufferBytesFor(bytes) > limit) {
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        `${this.#leasedBytes} bytes of outgoing buffers are leased, and ${bytes} more exceed largeMemoryBytes (${limit}): send or release them first, or raise the limit`,
      );
    }
    const buffer = this.#pool.take(bytes, true);
    this.#leasedBytes += buffer.slab.bufferBytes;
    const token = this.#nextToken--;
    this.#leases.set(token, buffer);
    return { data: viewOf(buffer, bytes), token };
  }

  /** A lease ends without having been sent as a large message. */
  endLease(token: number): void {
    this.#pool.give(this.#takeLease(token));
  }

  /**
   * Puts the message where the peer can read it.
   * @throws VerbmqError when there is no memory for that; nothing was done.
   */
  prepare(data: Uint8Array, lease: OutgoingLease | undefined, mayBorrow: boolean): LargeMessage {
    const bytes = data.byteLength;
    if (lease !== undefined && lease.token <= FIRST_TOKEN) {
      const leased = this.#takeLease(lease.token);
      this.#pool.unhold(leased);
      return inPool(leased, bytes);
    }
    const { buffer, byteOffset } = data;
    if (mayBorrow && this.#init.mayBorrow && bytes >= BORROW_BYTES && isLendable(data)) {
      const { engine, handle } = this.#init;
      const memory = buffer as ArrayBuffer;
      const { region } = engine.registerMemory(handle, memory, byteOffset, bytes, MemoryUse.remoteRead);
      return { region, offset: 0, bytes, buffer: undefined };
    }
    const copy = this.#pool.take(bytes);
    viewOf(copy, bytes).set(data);
    return inPool(copy, bytes);
  }

  /** The message was submitted. Answers what `_submit` does: a promise where the bytes are needed until the peer has read them. */
  advertised(message: LargeMessage): true | Promise<void> {
    this.#unreadBytes += message.bytes;
    this.#windowUsed += message.bytes;
    this.#unreleased.push(message.bytes);
    if (message.buffer !== undefined) {
      this.#unread.push(message);
      this.#init.engine.poolMemory.isSent(this.#init.sent);
      return true;
    }
    this.#borrowedBytes += message.bytes;
    return new Promise((resolve, reject) => {
      this.#unread.push({ ...message, resolve, reject });
    });
  }

  /** So many messages were read by the peer, and released by its application, in all. */
  reclaim(read: number, released: number): void {
    if (this.#read === read && this.#released === released) return;
    for (; this.#read !== read; this.#read = (this.#read + 1) | 0)
      this.#wasRead(this.#unread.shift() as Advertised);
    for (; this.#released !== released; this.#released = (this.#released + 1) | 0) {
      this.#windowUsed -= this.#unreleased.shift() as number;
    }
    if (this.#unreadBytes === this.#borrowedBytes) this.#init.engine.poolMemory.isNotSent(this.#init.sent);
  }

  /** The connection has failed. Who lent memory learns it with `end`: until then the peer's device may read it. */
  fail(error: VerbmqError): void {
    this.#error = error;
  }

  /** The engine holds nothing of the connection any more. */
  end(): void {
    this.#init.engine.poolMemory.isNotSent(this.#init.sent);
    this.#pool.close();
    this.#leases.clear();
    this.#unreadBytes = 0;
    this.#borrowedBytes = 0;
    for (const { resolve, reject } of this.#unread.takeAll()) {
      if (this.#error === undefined) resolve?.();
      else reject?.(this.#error.withUnknownOutcome());
    }
  }

  #wasRead({ buffer, region, bytes, resolve }: Advertised): void {
    this.#unreadBytes -= bytes;
    if (buffer !== undefined) {
      this.#pool.give(buffer);
      return;
    }
    this.#borrowedBytes -= bytes;
    this.#init.engine.deregisterMemory(this.#init.handle, region);
    resolve?.();
  }

  #takeLease(token: number): PooledBuffer {
    const buffer = this.#leases.get(token) as PooledBuffer;
    this.#leases.delete(token);
    this.#leasedBytes -= buffer.slab.bufferBytes;
    return buffer;
  }
}

function inPool(buffer: PooledBuffer, bytes: number): LargeMessage {
  return { region: buffer.slab.region, offset: buffer.offset, bytes, buffer };
}
