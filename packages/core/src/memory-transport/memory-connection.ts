import type { HostAddress, PathAddress } from '../contract/address.js';
import type { Capabilities } from '../contract/capabilities.js';
import { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { type DescriptorFields, messageGone, type ResolvedMemoryAccess } from '../contract/memory.js';
import type { ResolvedConnectionOptions } from '../contract/options.js';
import type { OutgoingLease } from '../contract/outgoing-lease.js';
import { Heartbeat } from '../transport-kit/heartbeat.js';
import { MemoryRegions } from '../transport-kit/memory-regions.js';
import { Credits, Receipts, type Window } from './credits.js';
import type { FrameVerdict, MemoryFaults } from './faults.js';
import { bytesOf, type Frame, type MemoryRequest } from './frames.js';
import { Operations, perform } from './operations.js';
import { Wire } from './wire.js';

export interface MemoryConnectionInit {
  readonly direction: 'in' | 'out';
  readonly options: ResolvedConnectionOptions;
  readonly maxMessageBytes: number;
  readonly localAddress: HostAddress | PathAddress;
  readonly remoteAddress: HostAddress | PathAddress;
  readonly faults: MemoryFaults;
  readonly peerWindow: Window;
  readonly window: Window;
  readonly capabilities: Capabilities;
}

/** A send of at least so many bytes borrows them until delivery, where it may. */
const BORROW_BYTES = 64 * 1024;

/** One end of a connection within the process. */
export class MemoryConnection extends Connection {
  readonly #faults: MemoryFaults;
  readonly #wire: Wire;
  readonly #credits: Credits;
  readonly #receipts: Receipts;
  readonly #regions = new MemoryRegions();
  readonly #operations: Operations;
  readonly #heartbeat: Heartbeat;
  readonly #framesSent = new Map<Frame['kind'], number>();
  #peer!: MemoryConnection;
  #buffered = 0;
  /** The longest that a stranger may say; without a limit when the peer is none any more. */
  #longestBytes: number;
  #tearingDown = false;
  #dead = false;

  constructor(init: MemoryConnectionInit) {
    super({ ...init, kind: 'memory' });
    this.#faults = init.faults;
    this.#longestBytes = init.options.maxGreetingBytes;
    this.#credits = new Credits(init.peerWindow);
    this.#receipts = new Receipts(init.window, (bytes, messages) =>
      this.#wire.push({ kind: 'credit', bytes, messages }),
    );
    this.#operations = new Operations((frame) => this.#wire.push(frame));
    this.#wire = new Wire({
      judge: (frame) => this.#judge(frame),
      deliver: (frame) => {
        if (!isGone(frame)) this.#peer.#deliver(frame);
      },
      departed: (frame) => this.#departed(frame),
      idle: () => this.#idle(),
      lose: () => this.lose(),
    });
    this.#heartbeat = new Heartbeat(init.options, {
      ping: () => this.#wire.push({ kind: 'ping' }),
      dead: (error) => this._fail(error),
    });
  }

  /** Joins two ends; before this neither may be used. */
  static join(one: MemoryConnection, other: MemoryConnection): void {
    one.#peer = other;
    other.#peer = one;
  }

  /** Ends both sides at once, as a broken network would. */
  lose(): void {
    const error = new VerbmqError(
      'ERR_VERBMQ_CONNECTION_LOST',
      'the connection was lost by an injected fault',
    );
    this._fail(error);
    this.#peer._fail(error);
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  protected override _submit(
    data: Uint8Array,
    lease: OutgoingLease | undefined,
    mayBorrow: boolean,
  ): boolean | Promise<void> {
    if (this.#buffered >= this._options.highWaterMarkBytes) return false;
    if (!this.#credits.take(data.byteLength)) return false;
    this.#buffered += data.byteLength;
    if (lease === undefined && mayBorrow && data.byteLength >= BORROW_BYTES) {
      return new Promise((resolve, reject) => {
        this.#wire.push({ kind: 'message', data, bytes: data.length, borrowed: { resolve, reject } });
      });
    }
    const own = lease === undefined ? new Uint8Array(data) : data;
    this.#wire.push({ kind: 'message', data: own, bytes: own.length, borrowed: undefined });
    return true;
  }

  protected override _bufferedBytes(): number {
    return this.#buffered;
  }

  protected override _allocate(bytes: number): OutgoingLease {
    this.#assertMemory(bytes);
    return super._allocate(bytes);
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  override releaseMessage(token: number, bytes: number): void {
    this.#receipts.release(token, bytes);
  }

  override retainMessage(token: number, data: Uint8Array): Uint8Array | undefined {
    return this.#receipts.retain(token, data);
  }

  #deliver(frame: Frame): void {
    if (this.#dead) return;
    this.#heartbeat.touch();
    const bytes = bytesOf(frame);
    if (bytes > this.#longestBytes) {
      const what = `${bytes} bytes came where ${this.#longestBytes} are accepted`;
      this._fail(new VerbmqError('ERR_VERBMQ_PROTOCOL', `the peer broke the protocol: ${what}`), what);
      return;
    }
    switch (frame.kind) {
      case 'message':
        this._receive(
          frame.borrowed === undefined ? frame.data : new Uint8Array(frame.data),
          this.#receipts.next(),
        );
        break;
      case 'credit':
        this.#credits.give(frame.bytes, frame.messages);
        this._roomAvailable();
        break;
      case 'request':
        this.#serve(frame.id, frame.key, frame.request);
        break;
      case 'answer':
        this.#operations.answered(frame.id, frame.value);
        break;
      case 'ping':
        this.#wire.push({ kind: 'pong' });
        break;
      case 'pong':
        break;
      case 'close':
        this._peerClosed();
        break;
      case 'abort':
        this._fail(new VerbmqError(frame.code, frame.reason));
        break;
    }
  }

  protected override _greeted(): void {
    this.#longestBytes = Number.POSITIVE_INFINITY;
  }

  // ---- one-sided memory ------------------------------------------------------------------------------------

  protected override async _expose(memory: number | Uint8Array, access: ResolvedMemoryAccess) {
    this.#assertMemory(typeof memory === 'number' ? memory : memory.byteLength);
    return this.#regions.expose(memory, access);
  }

  protected override async _read(
    remote: DescriptorFields,
    offset: number,
    target: Uint8Array,
  ): Promise<void> {
    const request = { operation: 'read', offset, length: target.byteLength } as const;
    const answer = (await this.#operations.ask(remote.key, request)) as Uint8Array;
    if (answer.length > 0) target.set(answer); // where no bytes are read, the memory may be gone
  }

  protected override async _write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    // A copy: the application may transfer its memory meanwhile.
    await this.#operations.ask(remote.key, {
      operation: 'write',
      offset,
      data: data.length === 0 ? new Uint8Array(0) : new Uint8Array(data),
    });
  }

  protected override async _fetchAdd(
    remote: DescriptorFields,
    offset: number,
    addend: bigint,
  ): Promise<bigint> {
    return (await this.#operations.ask(remote.key, { operation: 'fetchAdd', offset, addend })) as bigint;
  }

  protected override async _compareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    const request = { operation: 'compareAndSwap', offset, expected, desired } as const;
    return (await this.#operations.ask(remote.key, request)) as bigint;
  }

  #serve(id: number, key: Uint8Array, request: MemoryRequest): void {
    try {
      this.#wire.push({ kind: 'answer', id, value: perform(this.#regions, key, request) });
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      this._fail(error, error.message);
    }
  }

  #assertMemory(bytes: number): void {
    if (this.#faults.allocate?.(bytes) ?? true) return;
    throw new VerbmqError(
      'ERR_VERBMQ_NO_BUFFERS',
      `${bytes} bytes of memory were denied by an injected fault`,
    );
  }

  // ---- life ------------------------------------------------------------------------------------------------

  protected override _sendClose(): void {
    this.#wire.push({ kind: 'close' });
  }

  protected override _teardown(): void {
    this.#tearingDown = true;
    setImmediate(() => this.#idle());
  }

  protected override _kill(error: VerbmqError, reasonForPeer: string | undefined): void {
    const left = this.#wire.end(lastWord(error, reasonForPeer));
    this.#giveBack();
    for (const frame of left) if (frame.kind === 'message') frame.borrowed?.reject(error);
    this.#operations.fail(error);
    setImmediate(() => this._finished());
  }

  #judge(frame: Frame): FrameVerdict {
    const index = this.#framesSent.get(frame.kind) ?? 0;
    this.#framesSent.set(frame.kind, index + 1);
    return this.#faults.frame?.({ kind: frame.kind, connectionId: this.id, index }) ?? 'deliver';
  }

  #departed(frame: Frame): void {
    if (frame.kind !== 'message') return;
    this.#buffered -= frame.bytes;
    if (isGone(frame)) {
      this.#credits.give(frame.bytes, 1);
      frame.borrowed?.reject(messageGone());
    } else frame.borrowed?.resolve();
  }

  #idle(): void {
    if (this.#dead) return;
    this._roomAvailable();
    if (!this.#tearingDown || !this.#wire.empty) return;
    this.#wire.end(undefined);
    this.#giveBack();
    this._finished();
  }

  #giveBack(): void {
    this.#dead = true;
    this.#heartbeat.stop();
    this.#regions.clear();
  }
}

/** Whether the application has transferred the memory of a message that it had lent. */
function isGone(frame: Frame): boolean {
  return frame.kind === 'message' && frame.data.length !== frame.bytes;
}

/** What a side that ends the connection tells the other. */
function lastWord(error: VerbmqError, reason: string | undefined): Frame {
  if (error.code === 'ERR_VERBMQ_REMOTE_ACCESS') {
    return { kind: 'abort', code: error.code, reason: error.message };
  }
  if (reason === undefined) {
    return {
      kind: 'abort',
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      reason: 'the peer ended the connection without a word',
    };
  }
  return {
    kind: 'abort',
    code: 'ERR_VERBMQ_PEER_ABORTED',
    reason: `the peer aborted the connection: ${reason}`,
  };
}
