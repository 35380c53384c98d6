import { VerbmqError } from './errors.js';
import { markReused } from './reused-memory.js';

/** What a message needs of the transport whose memory it shows. */
export interface MessageOwner {
  /**
   * The resource `token` (a slot, an amount of window) is free again. Called exactly once for each message, be it
   * long after the connection has ended: the application may keep what it received.
   */
  releaseMessage(token: number, bytes: number): void;
  /**
   * The application keeps the message beyond its handler. Either the resource may stay occupied until the
   * release: answer `undefined`. Or not: take the resource back at once, and answer with bytes that stay valid
   * without it (`releaseMessage` is then not called).
   */
  retainMessage(token: number, data: Uint8Array): Uint8Array | undefined;
}

/**
 * A received message: a lease of the transport's memory. `data` may be read until the lease ends, which is when
 *
 * - the handler given to `onMessage` returns, or the iterator is asked for its next message, unless `retain()` was
 *   called before;
 * - `release()` is called.
 *
 * Messages are made by transports, not by applications.
 */
export class Message {
  #data: Uint8Array | undefined;
  #owner: MessageOwner | undefined;
  readonly #token: number;
  /** Its length, also when the application has transferred the memory to another thread. */
  readonly #bytes: number;
  #retained = false;
  /** What the transport has little of is its own again. */
  #kept = false;

  constructor(data: Uint8Array, owner: MessageOwner | undefined, token: number) {
    this.#data = data;
    this.#owner = owner;
    this.#token = token;
    this.#bytes = data.length;
  }

  /**
   * The bytes, without a copy. Read it again after `retain()`: the bytes may have moved. The memory may be the transport's: whoever
   * needs it in another thread posts a copy.
   * @throws VerbmqError `ERR_VERBMQ_LEASE_RELEASED` after the lease has ended.
   */
  get data(): Uint8Array {
    if (this.#data === undefined) {
      throw new VerbmqError(
        'ERR_VERBMQ_LEASE_RELEASED',
        'this message was released already: call retain() in the handler to keep it longer, and release() later',
      );
    }
    return this.#data;
  }

  /** The length of the message in bytes. */
  get byteLength(): number {
    return this.data.length; // the same, and asked for in less time
  }

  /** Whether `retain()` was called. */
  get retained(): boolean {
    return this.#retained;
  }

  /**
   * Keeps the message after the handler has returned, until `release()`. Where the transport's receive memory is
   * scarce the bytes are copied out of it, so that a kept message never stalls the connection.
   */
  retain(): this {
    void this.data; // which throws where there is none
    this.#retained = true;
    this.keep();
    return this;
  }

  /**
   * @internal Lets go of what the transport has little of, as `retain` does, though the lease ends as it would have. Only before
   * somebody has seen the bytes, which may move.
   */
  keep(): void {
    const data = this.#data;
    if (this.#kept || data === undefined) return;
    this.#kept = true;
    if (data.length < this.#bytes) return; // the application has taken the memory itself: there is nothing to keep
    const moved = this.#owner?.retainMessage(this.#token, data);
    if (moved === undefined) return;
    this.#data = moved;
    this.#owner = undefined;
  }

  /** Ends the lease. Calling it again does nothing. */
  release(): void {
    const data = this.#data;
    if (data === undefined) return;
    this.#data = undefined;
    const owner = this.#owner;
    if (owner !== undefined) {
      this.#owner = undefined;
      owner.releaseMessage(this.#token, this.#bytes);
    }
  }

  /** The same as {@link release}. */
  [Symbol.dispose](): void {
    this.release();
  }
}

/**
 * Stands between the transport and a message in debug mode: the message gets memory of its own, the transport's
 * is released when the message is, and the copy is taken away at that moment, so that views of it that were kept by
 * mistake have length 0.
 */
export class DebugMessageOwner implements MessageOwner {
  readonly #owner: MessageOwner;
  readonly #live = new Map<number, { copy: Uint8Array<ArrayBuffer>; token: number }>();
  #next = 0;

  constructor(owner: MessageOwner) {
    this.#owner = owner;
  }

  wrap(data: Uint8Array, token: number): Message {
    const copy = new Uint8Array(data);
    markReused(copy.buffer);
    const id = this.#next++;
    this.#live.set(id, { copy, token });
    return new Message(copy, this, id);
  }

  releaseMessage(id: number, bytes: number): void {
    const entry = this.#live.get(id);
    if (entry === undefined) return;
    this.#live.delete(id);
    if (entry.copy.length > 0) structuredClone(entry.copy.buffer, { transfer: [entry.copy.buffer] }); // detaches it
    if (entry.token !== KEPT_TOKEN) this.#owner.releaseMessage(entry.token, bytes);
  }

  retainMessage(id: number, data: Uint8Array): undefined {
    const entry = this.#live.get(id);
    if (entry === undefined) return;
    // The copy lives on by itself: if the transport wants its resource back, that is already possible.
    if (this.#owner.retainMessage(entry.token, data) !== undefined) entry.token = KEPT_TOKEN;
  }
}

/** The token of a message whose transport resource was given back when it was retained. */
const KEPT_TOKEN = -1;
