import type { VerbmqError } from '@verbmq/core';
import { Fifo, memoryGone } from '@verbmq/core/transport-kit';
import { type Handle, MemoryUse, SubmissionKind } from './binding.js';
import { BufferPool, type PooledBuffer, viewOf } from './buffer-pool.js';
import { BORROW_BYTES, isLendable } from './large-sender.js';
import type { OneSidedOperation, RdmaEngine } from './rdma-engine.js';

/** Operations that the engine is given at once: enough to keep the device busy, few enough that their buffers are bounded. */
const MOST_IN_FLIGHT = 64;
const MOST_BUFFERED_BYTES = 4 * 1024 * 1024;

/** An operation on the peer's memory, with what of this side's memory meets it. */
export interface Operation {
  readonly kind: OneSidedOperation['kind'];
  readonly remoteAddress: bigint;
  readonly rkey: number;
  /** What is filled, or written from. Atomic operations have none. */
  readonly view: Uint8Array | undefined;
  readonly operand?: bigint;
  readonly swap?: bigint;
}

interface Pending extends Operation {
  readonly bytes: number;
  readonly resolve: (value: bigint) => void;
  readonly reject: (error: unknown) => void;
  /** Of the pool, while the device has it. */
  buffer?: PooledBuffer;
  /** The application's own memory, registered. */
  region?: number;
}

/**
 * The asking side of one-sided operations. The peer's device answers, so nothing here waits for the peer's code. Operations
 * start and end in the order of the calls.
 */
export class OneSidedOperations {
  readonly #engine: RdmaEngine;
  readonly #handle: Handle;
  readonly #mayBorrow: boolean;
  /** What is read lands in `#sinks`; what is written leaves from `#sources`. */
  readonly #sinks: BufferPool;
  readonly #sources: BufferPool;
  readonly #waiting = new Fifo<Pending>();
  readonly #inFlight = new Fifo<Pending>();
  /** Of a connection that is dead: those whose memory the device may still use. */
  readonly #lent: Pending[] = [];
  #error: VerbmqError | undefined;
  #bufferedBytes = 0;
  #borrowedBytes = 0;
  #nextToken = 0;

  /** @param mayBorrow whether memory of the application's own may be registered */
  constructor(engine: RdmaEngine, handle: Handle, mayBorrow: boolean) {
    this.#engine = engine;
    this.#handle = handle;
    this.#mayBorrow = mayBorrow;
    this.#sinks = new BufferPool(engine, handle, MemoryUse.sink);
    this.#sources = new BufferPool(engine, handle, 0);
  }

  get registeredBytes(): number {
    return this.#sinks.bytes + this.#sources.bytes + this.#borrowedBytes;
  }

  /** Resolves when it is done, with the value before where it is an atomic one. */
  run(operation: Operation): Promise<bigint> {
    if (this.#error !== undefined) return Promise.reject(this.#error);
    return new Promise((resolve, reject) => {
      const bytes = operation.view?.byteLength ?? 8;
      this.#waiting.push({ ...operation, bytes, resolve, reject });
      this.#start();
    });
  }

  /** The first of those in flight is complete. */
  completed(): void {
    const done = this.#inFlight.shift();
    if (done === undefined) return; // it failed before
    try {
      done.resolve(this.#finish(done));
    } catch (error) {
      done.reject(error); // the application has taken away the memory to be filled
    }
    this.#start();
  }

  /**
   * The connection is dead. The device may still work on the application's own memory, which therefore stays taken
   * until the queue pair is gone; everything else fails now.
   */
  fail(error: VerbmqError): void {
    this.#error ??= error;
    for (const { reject } of this.#waiting.takeAll()) reject(error);
    for (const pending of this.#inFlight.takeAll()) {
      if (pending.region === undefined) this.#reject(pending, error);
      else this.#lent.push(pending);
    }
  }

  /** The engine holds nothing of the connection any more. */
  end(error: VerbmqError): void {
    this.fail(error);
    for (const pending of this.#lent.splice(0)) this.#reject(pending, this.#error ?? error);
    this.#borrowedBytes = 0;
    this.#sinks.close();
    this.#sources.close();
  }

  /** Nobody knows what became of a change that the device had been given. */
  #reject({ kind, reject }: Pending, error: VerbmqError): void {
    reject(kind === SubmissionKind.read ? error : error.withUnknownOutcome());
  }

  #start(): void {
    for (let next = this.#waiting.peek(); next !== undefined; next = this.#waiting.peek()) {
      if (next.view !== undefined && next.view.byteLength !== next.bytes) {
        this.#waiting.shift();
        next.reject(memoryGone());
        continue;
      }
      const idle = this.#inFlight.length === 0;
      if (!idle && !this.#hasRoomFor(next)) return;
      try {
        this.#prepare(next);
      } catch (error) {
        // Those in flight give their memory back.
        if (!idle) return;
        this.#waiting.shift();
        next.reject(error);
        continue;
      }
      this.#waiting.shift();
      this.#submit(next);
    }
  }

  #hasRoomFor(next: Pending): boolean {
    if (this.#inFlight.length >= MOST_IN_FLIGHT) return false;
    return this.#borrows(next) || this.#bufferedBytes + next.bytes <= MOST_BUFFERED_BYTES;
  }

  #borrows({ view, bytes }: Pending): boolean {
    return this.#mayBorrow && bytes >= BORROW_BYTES && view !== undefined && isLendable(view);
  }

  /** @throws VerbmqError when there is no memory; nothing was done */
  #prepare(next: Pending): void {
    const { view, bytes, kind } = next;
    const isWrite = kind === SubmissionKind.write;
    if (view !== undefined && this.#borrows(next)) {
      const uses = isWrite ? 0 : MemoryUse.sink;
      const memory = view.buffer as ArrayBuffer;
      next.region = this.#engine.registerMemory(this.#handle, memory, view.byteOffset, bytes, uses).region;
      this.#borrowedBytes += bytes;
      return;
    }
    next.buffer = (isWrite ? this.#sources : this.#sinks).take(bytes);
    this.#bufferedBytes += bytes;
    if (isWrite) viewOf(next.buffer, bytes).set(view as Uint8Array);
  }

  #submit(started: Pending): void {
    const { kind, remoteAddress, rkey, bytes, operand, swap, buffer } = started;
    this.#inFlight.push(started);
    this.#nextToken = (this.#nextToken + 1) >>> 0;
    this.#engine.submitOperation(this.#handle, {
      kind,
      token: this.#nextToken,
      region: buffer === undefined ? (started.region as number) : buffer.slab.region,
      offset: buffer?.offset ?? 0,
      bytes,
      remoteAddress,
      rkey,
      ...(operand === undefined ? {} : { operand }),
      ...(swap === undefined ? {} : { swap }),
    });
  }

  /** Takes the result to where it belongs, and gives the memory back. */
  #finish({ kind, view, bytes, buffer, region }: Pending): bigint {
    if (buffer === undefined) {
      this.#engine.deregisterMemory(this.#handle, region as number);
      this.#borrowedBytes -= bytes;
      return 0n;
    }
    try {
      const result = viewOf(buffer, bytes);
      if (view === undefined) return new BigUint64Array(result.buffer, result.byteOffset, 1)[0] as bigint;
      if (kind === SubmissionKind.read) view.set(result);
      return 0n;
    } finally {
      this.#giveBack(kind, buffer, bytes);
    }
  }

  #giveBack(kind: Pending['kind'], buffer: PooledBuffer, bytes: number): void {
    this.#bufferedBytes -= bytes;
    (kind === SubmissionKind.write ? this.#sources : this.#sinks).give(buffer);
  }
}
