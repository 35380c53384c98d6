import { VerbmqError } from './errors.js';
import { checkInteger } from './options.js';

/** What an outgoing lease needs of the transport that gave its memory. */
export interface OutgoingLeaseOwner {
  /** The lease was given back without being sent. */
  freeOutgoing(lease: OutgoingLease): void;
}

/**
 * A buffer of the transport (registered memory on RDMA) that the application fills and sends without a copy. It
 * belongs to the application until it is sent or released; its content is not initialised.
 */
export class OutgoingLease {
  #data: Uint8Array | undefined;
  /** The connection that gave the lease; it cannot be sent on another one. */
  readonly owner: OutgoingLeaseOwner;
  /** The transport's name for the memory. */
  readonly token: number;

  constructor(data: Uint8Array, owner: OutgoingLeaseOwner, token: number) {
    this.#data = data;
    this.owner = owner;
    this.token = token;
  }

  /**
   * The bytes to fill.
   * @throws VerbmqError `ERR_VERBMQ_LEASE_RELEASED` after the lease was sent or released.
   */
  get data(): Uint8Array {
    if (this.#data === undefined) {
      throw new VerbmqError('ERR_VERBMQ_LEASE_RELEASED', 'this outgoing buffer was sent or released already');
    }
    return this.#data;
  }

  /** The length of the message in bytes. */
  get byteLength(): number {
    return this.data.byteLength;
  }

  /** Shortens the message to its first `bytes` bytes, where its length was not known when it was allocated. */
  shrink(bytes: number): this {
    const data = this.data;
    checkInteger('bytes', bytes, 0, data.byteLength);
    this.#data = data.subarray(0, bytes);
    return this;
  }

  /** Gives the buffer back unsent. Calling it again, or after it was sent, does nothing. */
  release(): void {
    if (this.#data === undefined) return;
    this.owner.freeOutgoing(this);
    this.#data = undefined;
  }

  /** The same as {@link release}. */
  [Symbol.dispose](): void {
    this.release();
  }

  /** For connections: the lease has passed from the application to the transport. */
  markTaken(): void {
    this.#data = undefined;
  }
}
