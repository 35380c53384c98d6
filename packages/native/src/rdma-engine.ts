// Longer than 300 lines because it is the whole of the boundary on this side: every record that passes it is written or read here.
import {
  type Addon,
  type DeviceNotice,
  EventKind,
  HANDLE_INDEX_MASK,
  type Handle,
  type MemoryRegistration,
  type NativeEngine,
  OPERATION_RECORDS,
  OperationLongWord,
  OperationWord,
  RECORD_WORDS,
  RejectReason,
  RING_WORDS,
  Ring,
  SubmissionKind,
} from './binding.js';
import type { BufferPool } from './buffer-pool.js';
import { toVerbmqError } from './native-error.js';
import { pollingNumber, type ResolvedRdmaOptions } from './options.js';
import { PoolMemory } from './pool-memory.js';
import { ReceivePools } from './receive-pool.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const { count: COUNT, delivering: DELIVERING } = Ring;
const { send: SEND, release: RELEASE } = SubmissionKind;
const { message: MESSAGE } = EventKind;
const OWN_RECORD_WORDS = RECORD_WORDS;
const OWN_HANDLE_INDEX_MASK = HANDLE_INDEX_MASK;

/** Something that the engine reports on: a listener, an attempt to connect or to accept, a connection. */
export interface Endpoint {
  readonly handle: Handle;
  /** A message has arrived: the most frequent event by far, so it has a method of its own. */
  messageArrived(slot: number, bytes: number): void;
  eventArrived(kind: number, a: number, b: number): void;
}

/** A one-sided operation: what of the peer's memory meets what of this side's. */
export interface OneSidedOperation {
  readonly kind:
    | typeof SubmissionKind.read
    | typeof SubmissionKind.write
    | typeof SubmissionKind.fetchAdd
    | typeof SubmissionKind.compareAndSwap;
  /** An unsigned 32-bit integer that comes back with `EventKind.operationDone`. */
  readonly token: number;
  readonly region: number;
  readonly offset: number;
  readonly bytes: number;
  readonly remoteAddress: bigint;
  readonly rkey: number;
  readonly operand?: bigint;
  readonly swap?: bigint;
}

/** Events of one call from the addon. */
const EVENT_RECORDS = 512;
/** Submissions between two flushes; when they are full, one flush goes out early. */
const SUBMISSION_RECORDS = 1024;

/**
 * The JavaScript half of the engine. Both halves share arrays: a batch of events comes with one call from the addon,
 * and what was submitted during it is taken when that call, and the microtasks after it, are done. So a request and
 * its answer cost one crossing of the boundary. Submissions at other times leave together at the end of the tick.
 */
export class RdmaEngine {
  readonly addon: Addon;
  readonly options: ResolvedRdmaOptions;
  readonly native: NativeEngine;
  /** Those that hold registered memory. */
  readonly pools = new Set<BufferPool>();
  /** How much they have, and may have. */
  readonly poolMemory: PoolMemory;
  /** Receive slots that accepted connections share, where the options say so. */
  readonly receivePools: ReceivePools | undefined;
  readonly #events = new Int32Array(EVENT_RECORDS * RECORD_WORDS);
  readonly #submissions = new Int32Array(SUBMISSION_RECORDS * RECORD_WORDS);
  readonly #longWords = new BigUint64Array(this.#submissions.buffer);
  readonly #ring = new Int32Array(RING_WORDS);
  readonly #endpoints: (Endpoint | undefined)[] = [];
  /** Those whose place another one has taken before they heard of their end. */
  readonly #displaced = new Map<Handle, Endpoint>();
  readonly #deviceNotice: (notice: DeviceNotice) => void;
  #flushScheduled = false;
  #closed = false;

  /** @throws what the addon throws when there is no RDMA here; see `native-error.ts`. */
  constructor(
    addon: Addon,
    options: ResolvedRdmaOptions,
    deviceNotice: (notice: DeviceNotice) => void = () => {},
  ) {
    this.addon = addon;
    this.options = options;
    this.#deviceNotice = deviceNotice;
    this.poolMemory = new PoolMemory(options);
    const { sharedReceiveQueue } = options;
    this.receivePools = sharedReceiveQueue && new ReceivePools(this, sharedReceiveQueue);
    this.native = new addon.Engine(
      {
        events: this.#events,
        submissions: this.#submissions,
        ring: this.#ring,
        polling: pollingNumber(options.polling),
        spinMicros: options.spinMicros,
        ...options.libraries,
      },
      () => this.#dispatch(),
    );
  }

  /** From now on, events of this handle go to `endpoint`. */
  register(endpoint: Endpoint): void {
    const index = endpoint.handle & HANDLE_INDEX_MASK;
    // A connection takes the place of its attempt, also of one that had lost it to a request that was heard of late.
    this.#displaced.delete(endpoint.handle);
    const former = this.#endpoints[index];
    // The addon gives a place away when nothing is left in it, which is before that has been told here.
    if (former !== undefined && former.handle !== endpoint.handle) this.#displaced.set(former.handle, former);
    this.#endpoints[index] = endpoint;
  }

  unregister(endpoint: Endpoint): void {
    const index = endpoint.handle & HANDLE_INDEX_MASK;
    if (this.#endpoints[index]?.handle === endpoint.handle) this.#endpoints[index] = undefined;
    else this.#displaced.delete(endpoint.handle);
  }

  submitSend(handle: Handle, slot: number, bytes: number): void {
    this.#submit(SEND, handle, slot, bytes);
  }

  /** @param pool the number of the pool that the slot is of; 0 where it is the connection's own */
  submitRelease(handle: Handle, slot: number, pool = 0): void {
    this.#submit(RELEASE, handle, slot, pool);
  }

  submitPing(handle: Handle): void {
    this.#submit(SubmissionKind.ping, handle, 0, 0);
  }

  submitFence(handle: Handle): void {
    this.#submit(SubmissionKind.fence, handle, 0, 0);
  }

  /** Tells the peer, from send slot `slot`, of a message of `bytes` bytes in `region`. Takes its turn among the sends. */
  submitAdvertise(handle: Handle, slot: number, region: number, offset: number, bytes: number): void {
    this.#submitWide(SubmissionKind.advertise, handle, slot, region, offset, bytes);
  }

  /** Reads the message that receive slot `slot` tells of. */
  submitFetch(handle: Handle, slot: number, region: number, offset: number): void {
    this.#submitWide(SubmissionKind.fetch, handle, slot, region, offset, 0);
  }

  /** Operations of one connection start and end in the order of these calls. */
  submitOperation(handle: Handle, operation: OneSidedOperation): void {
    const { kind, token, region, offset, bytes } = operation;
    const at = this.#submitWide(kind, handle, token, region, offset, bytes);
    if (at < 0) return;
    this.#submissions[at + OperationWord.rkey] = operation.rkey;
    this.#longWords[at / 2 + OperationLongWord.remoteAddress] = operation.remoteAddress;
    this.#longWords[at / 2 + OperationLongWord.operand] = operation.operand ?? 0n;
    this.#longWords[at / 2 + OperationLongWord.swap] = operation.swap ?? 0n;
  }

  /** @throws VerbmqError `ERR_VERBMQ_MEMLOCK` or `ERR_VERBMQ_NO_BUFFERS` when it cannot be had. */
  registerMemory(
    handle: Handle,
    buffer: ArrayBuffer,
    offset: number,
    bytes: number,
    uses: number,
  ): MemoryRegistration {
    try {
      return this.native.registerMemory(handle, buffer, offset, bytes, uses);
    } catch (error) {
      throw toVerbmqError(error, `${bytes} bytes cannot be registered`);
    }
  }

  /** Gives back what lies idle in the pools of all connections. Answers whether that was anything. */
  freeUnusedMemory(): boolean {
    let freed = false;
    this.poolMemory.reclaim();
    for (const pool of this.pools) {
      const before = pool.bytes;
      pool.freeUnused();
      freed ||= pool.bytes < before;
    }
    return freed;
  }

  deregisterMemory(handle: Handle, region: number): void {
    if (!this.#closed) this.native.deregisterMemory(handle, region);
  }

  closeListener(listener: Handle): void {
    if (!this.#closed) this.native.closeListener(listener);
  }

  /** Posts what was submitted, now. */
  flush(): void {
    if (!this.#closed) this.native.flush();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.native.close();
  }

  #submit(kind: number, handle: Handle, a: number, b: number): void {
    const at = this.#reserve(1);
    if (at < 0) return;
    const submissions = this.#submissions;
    // `| 0`: see "Code that runs for each message" in CONTRIBUTING.md.
    submissions[at] = kind | 0;
    submissions[at + 1] = handle | 0;
    submissions[at + 2] = a | 0;
    submissions[at + 3] = b | 0;
  }

  #submitWide(
    kind: number,
    handle: Handle,
    token: number,
    region: number,
    offset: number,
    bytes: number,
  ): number {
    const at = this.#reserve(OPERATION_RECORDS);
    if (at < 0) return at;
    const words = this.#submissions;
    words[at] = kind;
    words[at + 1] = handle;
    words[at + OperationWord.token] = token;
    words[at + OperationWord.region] = region;
    words[at + OperationWord.offset] = offset;
    words[at + OperationWord.bytes] = bytes;
    return at;
  }

  /** Where `records` records of a submission go: the index of their first word. -1 when the engine is closed. */
  #reserve(records: number): number {
    if (this.#closed) return -1;
    const ring = this.#ring;
    let count = ring[COUNT] as number;
    if (count + records > SUBMISSION_RECORDS) {
      this.native.flush();
      count = 0;
    }
    ring[COUNT] = count + records;
    if (ring[DELIVERING] === 0 && !this.#flushScheduled) {
      this.#flushScheduled = true;
      process.nextTick(this.#flushTick);
    }
    return count * OWN_RECORD_WORDS;
  }

  readonly #flushTick = (): void => {
    this.#flushScheduled = false;
    this.flush();
  };

  /** An event that nobody waits for, any more or at all. What it would have handed over is given back. */
  #takeOwnerless(kind: number, handle: Handle, a: number): void {
    switch (kind) {
      case EventKind.deviceNotice:
        this.native.takeDeviceNotices().forEach(this.#deviceNotice);
        break;
      case EventKind.incoming: // its listener was closed in the same batch
        this.native.reject(a, RejectReason.refused);
        break;
      case EventKind.closed:
      case EventKind.lost:
        this.native.takeFailure(handle);
        break;
    }
  }

  #dispatch(): void {
    const events = this.#events;
    const count = this.#ring[DELIVERING] as number;
    for (let i = 0, at = 0; i < count; i++, at += OWN_RECORD_WORDS) {
      const handle = events[at + 1] as number;
      let endpoint = this.#endpoints[handle & OWN_HANDLE_INDEX_MASK];
      if (endpoint?.handle !== handle) endpoint = this.#displaced.get(handle);
      const kind = events[at] as number;
      const a = events[at + 2] as number;
      try {
        if (endpoint === undefined) {
          this.#takeOwnerless(kind, handle, a);
        } else if (kind === MESSAGE) {
          endpoint.messageArrived(a, events[at + 3] as number);
        } else {
          endpoint.eventArrived(kind, a, events[at + 3] as number);
        }
      } catch (error) {
        // The rest of the batch goes on; the fault is reported as Node reports any other.
        process.nextTick(() => {
          throw error;
        });
      }
    }
  }
}
