import { VerbmqError } from '@verbmq/core';
import { copyOf, Fifo } from '@verbmq/core/transport-kit';
import { type Handle, MemoryUse } from './binding.js';
import { BufferPool, bufferBytesFor, type PooledBuffer, viewOf } from './buffer-pool.js';
import { LIMIT_REACHED, type MemoryWaiter } from './pool-memory.js';
import type { RdmaEngine } from './rdma-engine.js';

/** What the connection does with what has arrived, in order. */
export interface LargeReceiverHooks {
  /** `token` comes back with `release` or `retain`. */
  large(data: Uint8Array, token: number): void;
  small(slot: number, bytes: number): void;
  /** The slot that told of a message is free again. */
  release(slot: number): void;
  peerClosed(): void;
  /** There is no memory, and none will come free; or the peer asks for more than it may. */
  failed(error: VerbmqError): void;
}

/** A message of the peer's that is longer than a slot. */
interface LargeMessage {
  /** The receive slot that told of it; it is held until the message is released. */
  readonly slot: number;
  readonly bytes: number;
  buffer: PooledBuffer | undefined;
  arrived: boolean;
  /** The application keeps it: slot and window are the peer's again. */
  retained: boolean;
}

/** What stands in line behind a large message that is still being read. */
type InLine = LargeMessage | { readonly slot: number; readonly bytes: number } | 'close';

/** Tokens of large messages, so that they are not those of slots. */
const FIRST_TOKEN = 1 << 20;

/**
 * Messages longer than a slot on their way in. Each is read into registered memory of this side as soon as it is
 * advertised; its window bounds how much that is. What arrives behind one that is still being read waits for it, so that
 * the order of the messages is kept.
 */
export class LargeReceiver {
  readonly #engine: RdmaEngine;
  readonly #handle: Handle;
  readonly #retainLimitBytes: number;
  #maxBytes: number;
  readonly #hooks: LargeReceiverHooks;
  readonly #pool: BufferPool;
  readonly #line = new Fifo<InLine>();
  readonly #withoutMemory = new Fifo<LargeMessage>();
  readonly #memoryWaiter: MemoryWaiter = {
    wantedBytes: () => {
      const next = this.#withoutMemory.peek();
      return next === undefined ? 0 : bufferBytesFor(next.bytes);
    },
    wake: () => this.#read(),
  };
  readonly #beingRead = new Fifo<LargeMessage>();
  /** Messages that the application has, by their tokens. */
  readonly #delivered = new Map<number, LargeMessage>();
  #nextToken = FIRST_TOKEN;
  #retainedBytes = 0;
  #unretained = 0;
  /** Nothing more is read. */
  #stopped = false;
  #ended = false;

  /**
   * @param retainLimitBytes how much registered memory retained messages may keep
   * @param maxBytes the longest message that is taken until `lift`; the engine knows what was agreed on
   */
  constructor(
    engine: RdmaEngine,
    handle: Handle,
    retainLimitBytes: number,
    maxBytes: number,
    hooks: LargeReceiverHooks,
  ) {
    this.#engine = engine;
    this.#handle = handle;
    this.#retainLimitBytes = retainLimitBytes;
    this.#maxBytes = maxBytes;
    this.#hooks = hooks;
    this.#pool = new BufferPool(engine, handle, MemoryUse.sink, 'in');
  }

  get registeredBytes(): number {
    return this.#pool.bytes;
  }

  /** Whether nothing waits in line: a small message may then go straight to the application. */
  get idle(): boolean {
    return this.#line.length === 0;
  }

  /** Whether a token names a large message. */
  owns(token: number): boolean {
    return token >= FIRST_TOKEN;
  }

  advertised(slot: number, bytes: number): void {
    const message: LargeMessage = { slot, bytes, buffer: undefined, arrived: false, retained: false };
    this.#line.push(message);
    if (bytes > this.#maxBytes) {
      const what = `the peer announced a message of ${bytes} bytes where ${this.#maxBytes} are accepted`;
      this.#hooks.failed(new VerbmqError('ERR_VERBMQ_PROTOCOL', what)); // and `end` gives the slot back
      return;
    }
    this.#withoutMemory.push(message);
    this.#read();
  }

  /** Messages may be as long as was agreed on. */
  lift(): void {
    this.#maxBytes = Number.POSITIVE_INFINITY;
  }

  /** A small message arrived while others wait in line. */
  smallArrived(slot: number, bytes: number): void {
    this.#line.push({ slot, bytes });
  }

  /** The peer's close arrived while others wait in line. */
  closeArrived(): void {
    this.#line.push('close');
  }

  /** The first of those that are being read is here. */
  fetched(): void {
    (this.#beingRead.shift() as LargeMessage).arrived = true;
    for (let next = this.#line.peek(); next !== undefined; next = this.#line.peek()) {
      if (typeof next === 'object' && 'buffer' in next && !next.arrived) return;
      this.#line.shift();
      this.#deliver(next);
    }
  }

  /** The application has let go of a message. */
  release(token: number): void {
    const message = this.#delivered.get(token);
    if (message === undefined) return;
    this.#delivered.delete(token);
    const buffer = message.buffer as PooledBuffer;
    if (message.retained) this.#retainedBytes -= buffer.slab.bufferBytes;
    else this.#giveWindowBack(message);
    this.#pool.give(buffer);
    this.#read();
  }

  /** The application keeps a message: the memory that it was read into, without a copy, as far as the limit goes. */
  retain(token: number, data: Uint8Array): Uint8Array | undefined {
    const message = this.#delivered.get(token);
    if (message === undefined) return undefined;
    const buffer = message.buffer as PooledBuffer;
    const { bufferBytes } = buffer.slab;
    if (this.#retainedBytes + bufferBytes > this.#retainLimitBytes || !this.#pool.hold(buffer)) {
      const copy = copyOf(data);
      this.release(token);
      return copy;
    }
    message.retained = true;
    this.#retainedBytes += bufferBytes;
    this.#giveWindowBack(message);
    this.#read(); // what waits for this one's memory waits for the next one's, or in vain
    return undefined;
  }

  /** The connection is dead: what still waits for memory is of no use to anybody, and others may be waiting behind it. */
  stop(): void {
    this.#stopped = true;
    this.#engine.poolMemory.leave('in', this.#memoryWaiter);
  }

  /** The engine holds nothing of the connection any more. Messages that the application has stay as they are. */
  end(): void {
    this.stop();
    this.#ended = true;
    this.#pool.close();
    for (const next of this.#line.takeAll()) if (next !== 'close') this.#hooks.release(next.slot);
    for (const { retained, slot } of this.#delivered.values()) if (!retained) this.#hooks.release(slot);
    this.#withoutMemory.takeAll();
  }

  #deliver(next: InLine): void {
    if (next === 'close') {
      this.#hooks.peerClosed();
    } else if ('buffer' in next) {
      const token = this.#nextToken++;
      this.#delivered.set(token, next);
      this.#unretained++;
      this.#hooks.large(viewOf(next.buffer as PooledBuffer, next.bytes), token);
    } else {
      this.#hooks.small(next.slot, next.bytes);
    }
  }

  #giveWindowBack({ slot }: LargeMessage): void {
    this.#unretained--;
    if (!this.#ended) this.#hooks.release(slot);
  }

  #read(): void {
    if (this.#stopped) return;
    for (let next = this.#withoutMemory.peek(); next !== undefined; next = this.#withoutMemory.peek()) {
      try {
        next.buffer = this.#pool.take(next.bytes);
      } catch (error) {
        // The engine has ended the connection already, and is about to tell why.
        if ((error as VerbmqError).code === 'ERR_VERBMQ_CONNECTION_LOST') return;
        // Where all connections together have as much as they may, one of them will give some back.
        if ((error as VerbmqError).reason === LIMIT_REACHED)
          this.#engine.poolMemory.wait('in', this.#memoryWaiter);
        // What is being read, or handled, gives its memory back soon. What is retained may not.
        else if (this.#beingRead.length === 0 && this.#unretained === 0)
          this.#hooks.failed(error as VerbmqError);
        return;
      }
      this.#withoutMemory.shift();
      this.#beingRead.push(next);
      this.#engine.submitFetch(this.#handle, next.slot, next.buffer.slab.region, next.buffer.offset);
    }
  }
}
