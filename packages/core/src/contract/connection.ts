// Longer than most files here: the whole life of a connection is one state machine, and splitting it would hide it.
import type { HostAddress, PathAddress } from './address.js';
import type { Capabilities } from './capabilities.js';
import { channels } from './diagnostics.js';
import { VerbmqError } from './errors.js';
import { Inbox, type MessageHandler } from './inbox.js';
import type { Logger } from './logger.js';
import {
  type DescriptorFields,
  decodeDescriptor,
  type ExposedMemory,
  encodeDescriptor,
  type MemoryAccess,
  type MemoryDescriptor,
  type RemoteMemory,
  resolveMemoryAccess,
} from './memory.js';
import { DebugMessageOwner, Message, type MessageOwner } from './message.js';
import { checkInteger, describe, type ResolvedConnectionOptions } from './options.js';
import { OutgoingLease, type OutgoingLeaseOwner } from './outgoing-lease.js';
import { AttachedMemory, type RemoteMemoryHooks } from './remote-memory.js';
import { SendQueue } from './send-queue.js';
import type { ConnectionStats } from './stats.js';

/** `closing`: the orderly end has begun on one side; nothing new is accepted, what was accepted is delivered. */
export type ConnectionState = 'open' | 'closing' | 'closed';

/** How a connection ended. */
export interface CloseInfo {
  /** Everything that both sides had accepted was delivered. */
  readonly graceful: boolean;
  /** Who ended it. A connection that was lost was ended by `'remote'`. */
  readonly initiator: 'local' | 'remote';
  /** Why it was not graceful. */
  readonly error?: VerbmqError;
}

/** What a transport knows of a connection when it is usable. */
export interface ConnectionInit {
  /** The transport's kind: `tcp`, `tls`, `unix`, `rdma`, `memory`. */
  readonly kind: string;
  readonly direction: 'in' | 'out';
  readonly options: ResolvedConnectionOptions;
  /** What both sides can carry: the smaller of their limits, in bytes. */
  readonly maxMessageBytes: number;
  readonly capabilities: Capabilities;
  readonly localAddress: HostAddress | PathAddress;
  readonly remoteAddress: HostAddress | PathAddress;
}

/** Memory that a transport has made reachable for the peer. */
export interface ExposedByTransport {
  readonly data: Uint8Array;
  /** Where the memory starts in the peer's terms, and the key to it; both go into the descriptor. */
  readonly address: bigint;
  readonly key: Uint8Array;
  /** Ends the peer's access; once it has resolved no operation takes effect any more. */
  readonly revoke: () => Promise<void>;
}

const TAKEN: Promise<void> = Promise.resolve();
let connections = 0;

/**
 * An ordered, reliable stream of whole messages between two peers, and one-sided access to each other's exposed memory.
 *
 * Every public method checks its arguments and the connection's state here, once, and then calls a hook (`_…`) of
 * the transport; so all transports answer every wrong use alike. Methods that return a promise reject, the others
 * throw: `TypeError` and `RangeError` for mistakes in the program, {@link VerbmqError} for everything else.
 */
export abstract class Connection
  implements MessageOwner, OutgoingLeaseOwner, RemoteMemoryHooks, AsyncDisposable
{
  /** Unique within this process. */
  readonly id: number = ++connections;
  readonly kind: string;
  readonly direction: 'in' | 'out';
  readonly localAddress: HostAddress | PathAddress;
  readonly remoteAddress: HostAddress | PathAddress;
  readonly capabilities: Capabilities;
  /** The longest message that this connection carries, in bytes: the smaller of both sides' limits. */
  readonly maxMessageBytes: number;
  /** Resolves, never rejects, when the connection has ended and all that it held of the system is given back. */
  readonly closed: Promise<CloseInfo>;

  protected readonly _options: ResolvedConnectionOptions;
  protected readonly _logger: Logger;

  #state: ConnectionState = 'open';
  #resolveClosed!: (info: CloseInfo) => void;
  #info: CloseInfo | undefined;
  #closedBy: 'local' | 'remote' = 'local';
  #closeSent = false;
  #peerClosed = false;
  #tearingDown = false;
  #closeTimer: NodeJS.Timeout | undefined;
  #operations = 0;

  readonly #inbox = new Inbox();
  readonly #debugOwner: DebugMessageOwner | undefined;
  readonly #sendQueue: SendQueue;
  #flushing = false;
  #drainWaiters: { resolve: () => void; reject: (error: VerbmqError) => void }[] = [];

  #messagesSent = 0;
  #bytesSent = 0;
  #messagesReceived = 0;
  #bytesReceived = 0;
  #backpressureEvents = 0;

  constructor(init: ConnectionInit) {
    this.kind = init.kind;
    this.direction = init.direction;
    this.localAddress = init.localAddress;
    this.remoteAddress = init.remoteAddress;
    this.capabilities = init.capabilities;
    this.maxMessageBytes = init.maxMessageBytes;
    this._options = init.options;
    this._logger = init.options.logger.child({ connection: this.id, transport: init.kind });
    this.#sendQueue = new SendQueue(init.options.maxQueuedBytes);
    this.#debugOwner = init.options.debugLeases ? new DebugMessageOwner(this) : undefined;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  get state(): ConnectionState {
    return this.#state;
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  /**
   * Sends one message. Resolves when the transport has taken the bytes: the caller may then reuse its buffer; it
   * does not say that the peer has them. While the transport is above its high-water mark the promise waits.
   * Messages arrive in the order of the calls. A lease passes to the connection with the call.
   *
   * Rejects with `ERR_VERBMQ_MESSAGE_TOO_LARGE`, `ERR_VERBMQ_SEND_QUEUE_FULL`, `ERR_VERBMQ_CLOSED`,
   * `ERR_VERBMQ_LEASE_RELEASED`, or with the error that ended the connection while the send waited (with
   * `outcome: 'unknown'` when a part had left).
   */
  send(data: Uint8Array | OutgoingLease): Promise<void> {
    try {
      const lease = data instanceof OutgoingLease ? data : undefined;
      const bytes = this.#checkSend(data, lease);
      if (this.#sendQueue.length === 0) {
        const taken = this._submit(bytes, lease, true);
        if (taken !== false) {
          lease?.markTaken();
          this.#messagesSent++;
          this.#bytesSent += bytes.byteLength;
          return taken === true ? TAKEN : taken;
        }
      }
      const waiting = this.#sendQueue.push(bytes, lease);
      lease?.markTaken();
      this.#backpressureEvents++;
      return waiting;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Sends one message if there is room for it now. `false`: nothing was done, a lease still belongs to the caller.
   * Always takes the bytes before it returns.
   */
  trySend(data: Uint8Array | OutgoingLease): boolean {
    const lease = data instanceof OutgoingLease ? data : undefined;
    const bytes = this.#checkSend(data, lease);
    if (this.#sendQueue.length > 0 || this._submit(bytes, lease, false) === false) {
      this.#backpressureEvents++;
      return false;
    }
    lease?.markTaken();
    this.#messagesSent++;
    this.#bytesSent += bytes.byteLength;
    return true;
  }

  /**
   * Leases a buffer of `bytes` bytes to be filled and sent with no copy. Its content is not initialised.
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` when the transport's memory is used up,
   *   `ERR_VERBMQ_MESSAGE_TOO_LARGE` beyond `maxMessageBytes`.
   */
  allocate(bytes: number): OutgoingLease {
    checkInteger('bytes', bytes, 0, Number.MAX_SAFE_INTEGER);
    this.#assertOpen('allocate');
    this.#assertLength(bytes);
    return this._allocate(bytes);
  }

  /** Resolves as soon as nothing that was sent is left in this process; rejects when the connection ends before. */
  drain(): Promise<void> {
    if (this.#info !== undefined) return Promise.reject(this.#closedError('drain'));
    if (this.#idle()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#drainWaiters.push({ resolve, reject });
    });
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /**
   * Receives by callback. Messages that came before are delivered first. Returns the function that detaches it.
   * An exception in the handler is the program's own and becomes an uncaught exception; no message is lost by it.
   * @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when a handler or an iterator is attached.
   */
  onMessage(handler: MessageHandler): () => void {
    if (typeof handler !== 'function')
      throw new TypeError(`handler must be a function, not ${describe(handler)}`);
    return this.#inbox.attachHandler(handler);
  }

  /**
   * Receives by iteration. Ends when the connection ends in order; throws its error otherwise, after the messages
   * that had arrived. While the loop is busy the peer is held back. Leaving the loop detaches it.
   */
  messages(): AsyncIterableIterator<Message, undefined> {
    return this.#inbox.attachIterator();
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Message, undefined> {
    return this.messages();
  }

  /** Holds back the handler's messages, and by and by the peer. One-sided operations and `close` still work. */
  pause(): void {
    this.#inbox.pause();
  }

  resume(): void {
    this.#inbox.resume();
  }

  // ---- one-sided memory ------------------------------------------------------------------------------------

  /**
   * Makes `bytes` zeroed bytes of local memory reachable for the peer, who needs the descriptor. The access ends with
   * `revoke()` or with the connection.
   */
  async expose(bytes: number, access: MemoryAccess): Promise<ExposedMemory> {
    checkInteger('bytes', bytes, 1, Number.MAX_SAFE_INTEGER);
    const granted = resolveMemoryAccess(access);
    this.#assertOpen('expose');
    this.#assertSupported('oneSided', 'exposing memory');
    if (granted.atomic) this.#assertSupported('atomics', 'exposing memory for atomics');
    const exposed = await this._expose(bytes, granted);
    let revoked: Promise<void> | undefined;
    return {
      data: exposed.data,
      byteLength: bytes,
      access: granted,
      descriptor: encodeDescriptor({
        address: exposed.address,
        byteLength: bytes,
        access: granted,
        key: exposed.key,
      }),
      revoke: () => {
        revoked ??= exposed.revoke();
        return revoked;
      },
    };
  }

  /**
   * Opens the peer's memory by its descriptor. Nothing is sent.
   * @throws VerbmqError `ERR_VERBMQ_INVALID_DESCRIPTOR` for a string that is not a descriptor.
   */
  attach(descriptor: MemoryDescriptor): RemoteMemory {
    const fields = decodeDescriptor(descriptor);
    this.#assertOpen('attach');
    this.#assertSupported('oneSided', 'attaching memory');
    return new AttachedMemory(this, fields);
  }

  // ---- life ------------------------------------------------------------------------------------------------

  /**
   * Ends the connection in order: nothing more is accepted on either side, and all that was accepted is delivered.
   * Messages that arrive meanwhile still reach the handler or iterator; without one they are dropped. Never
   * rejects; the answer says whether all went well. Aborts with `ERR_VERBMQ_CLOSE_TIMEOUT` after `closeTimeoutMs`.
   */
  close(): Promise<CloseInfo> {
    if (this.#state === 'open') this.#beginClose('local');
    this.#inbox.discardUnread();
    return this.closed;
  }

  /**
   * Ends the connection at once. What has not left is lost; pending operations fail with `ERR_VERBMQ_ABORTED`; the
   * peer gets `ERR_VERBMQ_PEER_ABORTED` with the reason, as far as it can still be told.
   * @param reason for the peer and the log; at most 1,024 bytes of it travel.
   */
  abort(reason = 'no reason given'): void {
    if (typeof reason !== 'string') throw new TypeError(`reason must be a string, not ${describe(reason)}`);
    this.#fail(
      new VerbmqError('ERR_VERBMQ_ABORTED', `this side aborted the connection: ${reason}`),
      'local',
      shorten(reason),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  stats(): ConnectionStats {
    return {
      messagesSent: this.#messagesSent,
      bytesSent: this.#bytesSent,
      messagesReceived: this.#messagesReceived,
      bytesReceived: this.#bytesReceived,
      sendsWaiting: this.#sendQueue.length,
      bytesWaiting: this.#sendQueue.bytes,
      bytesBuffered: this.#state === 'closed' ? 0 : this._bufferedBytes(),
      messagesQueued: this.#inbox.length,
      backpressureEvents: this.#backpressureEvents,
    };
  }

  // ---- hooks: what a transport implements --------------------------------------------------------------------

  /**
   * Takes one message, in order. `true`: taken, the bytes are no longer needed. `false`: no room (at or above the high-water
   * mark, or out of credits); nothing was done, and `_roomAvailable()` will be called when there is. A
   * promise, only where `mayBorrow`: taken in order, but the bytes are needed until it settles.
   * A `lease` is one of this connection's own; with `true` or a promise its memory is the transport's again.
   */
  protected abstract _submit(
    data: Uint8Array,
    lease: OutgoingLease | undefined,
    mayBorrow: boolean,
  ): boolean | Promise<void>;

  /** Bytes taken by `_submit` that have not left this process yet. */
  protected abstract _bufferedBytes(): number;

  /** Tells the peer, behind everything that was submitted, that nothing more will come. Called once. */
  protected abstract _sendClose(): void;

  /** Both sides have said so: let what is buffered leave, give everything back, then call `_finished()`. Called once. */
  protected abstract _teardown(): void;

  /**
   * The connection is dead, whatever was called before: fail own pending operations with `error`, give everything back, then call `_finished()`.
   * With `reasonForPeer` the peer should be told, without waiting for it.
   */
  protected abstract _kill(error: VerbmqError, reasonForPeer: string | undefined): void;

  /** @see MessageOwner */
  abstract releaseMessage(token: number, bytes: number): void;
  /** @see MessageOwner */
  abstract retainMessage(token: number, data: Uint8Array): Uint8Array | undefined;

  /** Memory for an outgoing lease; by default ordinary memory of its own. */
  protected _allocate(bytes: number): OutgoingLease {
    return new OutgoingLease(Buffer.allocUnsafeSlow(bytes), this, 0);
  }

  /** @see OutgoingLeaseOwner */
  freeOutgoing(_lease: OutgoingLease): void {}

  /** Called only where `capabilities.oneSided` is not `'none'`; so are the four that follow. Arguments are checked. */
  protected _expose(_bytes: number, _access: Required<MemoryAccess>): Promise<ExposedByTransport> {
    throw this.#unsupported('exposing memory');
  }
  protected _read(_remote: DescriptorFields, _offset: number, _target: Uint8Array): Promise<void> {
    throw this.#unsupported('reading remote memory');
  }
  protected _write(_remote: DescriptorFields, _offset: number, _data: Uint8Array): Promise<void> {
    throw this.#unsupported('writing remote memory');
  }
  protected _fetchAdd(_remote: DescriptorFields, _offset: number, _addend: bigint): Promise<bigint> {
    throw this.#unsupported('fetchAdd');
  }
  protected _compareAndSwap(
    _remote: DescriptorFields,
    _offset: number,
    _expected: bigint,
    _desired: bigint,
  ): Promise<bigint> {
    throw this.#unsupported('compareAndSwap');
  }

  // ---- what a transport calls ------------------------------------------------------------------------------

  /** A whole message has arrived. `token` comes back with `releaseMessage` or `retainMessage`. */
  protected _receive(data: Uint8Array, token: number): void {
    if (this.#state === 'closed' || this.#info !== undefined) {
      this.releaseMessage(token, data.byteLength);
      return;
    }
    this.#messagesReceived++;
    this.#bytesReceived += data.byteLength;
    this.#inbox.push(
      this.#debugOwner === undefined ? new Message(data, this, token) : this.#debugOwner.wrap(data, token),
    );
  }

  /** There is room again after `_submit` answered `false`, or buffered bytes have left. */
  protected _roomAvailable(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    try {
      for (let next = this.#sendQueue.peek(); next !== undefined; next = this.#sendQueue.peek()) {
        const taken = this._submit(next.data, next.lease, true);
        if (taken === false) break;
        this.#sendQueue.shift();
        this.#messagesSent++;
        this.#bytesSent += next.data.byteLength;
        if (taken === true) next.resolve();
        else taken.then(next.resolve, next.reject);
      }
    } finally {
      this.#flushing = false;
    }
    this.#progressed();
  }

  /** The peer said that nothing more will come; everything before it has been given to `_receive`. */
  protected _peerClosed(): void {
    if (this.#info !== undefined || this.#peerClosed) return;
    this.#peerClosed = true;
    this.#inbox.finish(undefined, false);
    if (this.#state === 'open') this.#beginClose('remote');
    this.#maybeTeardown();
  }

  /** The connection broke. The first error counts; `_kill` follows. */
  protected _fail(error: VerbmqError, reasonForPeer?: string): void {
    this.#fail(error, 'remote', reasonForPeer);
  }

  /** Nothing of the system is held any more. */
  protected _finished(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#stopCloseTimer();
    const info: CloseInfo = this.#info ?? { graceful: true, initiator: this.#closedBy };
    this.#info = info;
    this.#settleDrain(info.error);
    this.#logInfo(info);
    this.#resolveClosed(info);
    if (channels.connectionClose.hasSubscribers) channels.connectionClose.publish({ connection: this, info });
  }

  // ---- one-sided operations, from AttachedMemory ---------------------------------------------------------------

  /** @internal */
  runOperation<T>(name: string, operation: () => Promise<T>): Promise<T> {
    this.#assertOpen(name);
    if (this.#operations >= MAX_OPERATIONS) {
      throw new VerbmqError(
        'ERR_VERBMQ_SEND_QUEUE_FULL',
        `${MAX_OPERATIONS} one-sided operations are pending on this connection already: await some first`,
      );
    }
    this.#operations++;
    const done = (): void => {
      this.#operations--;
      this.#progressed();
    };
    let running: Promise<T>;
    try {
      running = operation();
    } catch (error) {
      running = Promise.reject(error);
    }
    running.then(done, done);
    return running;
  }

  /** @internal */
  remoteRead(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    return this.runOperation('read', () => this._read(remote, offset, target));
  }
  /** @internal */
  remoteWrite(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    return this.runOperation('write', () => this._write(remote, offset, data));
  }
  /** @internal */
  remoteFetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    this.#assertSupported('atomics', 'fetchAdd');
    return this.runOperation('fetchAdd', () => this._fetchAdd(remote, offset, addend));
  }
  /** @internal */
  remoteCompareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    this.#assertSupported('atomics', 'compareAndSwap');
    return this.runOperation('compareAndSwap', () => this._compareAndSwap(remote, offset, expected, desired));
  }

  // ---- private ---------------------------------------------------------------------------------------------

  #checkSend(data: Uint8Array | OutgoingLease, lease: OutgoingLease | undefined): Uint8Array {
    let bytes: Uint8Array;
    if (lease !== undefined) {
      if (lease.owner !== this) throw new TypeError('this lease belongs to another connection');
      bytes = lease.data;
    } else if (data instanceof Uint8Array) {
      bytes = data;
    } else {
      throw new TypeError(`a message is a Uint8Array or a lease from allocate(), not ${describe(data)}`);
    }
    if (this.#state !== 'open') throw this.#closedError('send');
    if (bytes.byteLength > this.maxMessageBytes) this.#assertLength(bytes.byteLength);
    return bytes;
  }

  #assertLength(bytes: number): void {
    if (bytes <= this.maxMessageBytes) return;
    throw new VerbmqError(
      'ERR_VERBMQ_MESSAGE_TOO_LARGE',
      `a message of ${bytes} bytes exceeds the ${this.maxMessageBytes} bytes that both sides accept: raise maxMessageBytes on both, or split it`,
    );
  }

  #assertOpen(what: string): void {
    if (this.#state !== 'open') throw this.#closedError(what);
  }

  #closedError(what: string): VerbmqError {
    const why = this.#info?.error;
    const state =
      this.#state === 'closed'
        ? 'has ended'
        : this.#peerClosed
          ? 'is being closed by the peer'
          : 'is closing';
    return new VerbmqError(
      'ERR_VERBMQ_CLOSED',
      `${what}: the connection ${state}${why === undefined ? '' : ` (${why.message})`}; connect again`,
      { cause: why },
    );
  }

  #assertSupported(capability: 'oneSided' | 'atomics', what: string): void {
    if (this.capabilities[capability] === 'none') throw this.#unsupported(what);
  }

  #unsupported(what: string): VerbmqError {
    return new VerbmqError(
      'ERR_VERBMQ_UNSUPPORTED',
      `${what} is not supported on this ${this.kind} connection`,
    );
  }

  #beginClose(by: 'local' | 'remote'): void {
    this.#state = 'closing';
    this.#closedBy = by;
    this.#closeTimer = setTimeout(() => {
      const { closeTimeoutMs } = this._options;
      const what = by === 'local' ? 'close()' : "the peer's close";
      this.#fail(
        new VerbmqError(
          'ERR_VERBMQ_CLOSE_TIMEOUT',
          `${what} could not deliver everything within ${closeTimeoutMs} ms`,
        ),
        by,
        'the orderly close took too long',
      );
    }, this._options.closeTimeoutMs);
    this.#progressed();
  }

  /** Nothing that was accepted is left on this side. */
  #idle(): boolean {
    return this.#sendQueue.length === 0 && this._bufferedBytes() === 0;
  }

  #progressed(): void {
    if (this.#info !== undefined) return;
    if (this.#drainWaiters.length > 0 && this.#idle()) this.#settleDrain(undefined);
    if (this.#state !== 'closing' || this.#closeSent) return;
    if (this.#sendQueue.length > 0 || this.#operations > 0) return;
    this.#closeSent = true;
    this._sendClose();
    this.#maybeTeardown();
  }

  #maybeTeardown(): void {
    if (!this.#closeSent || !this.#peerClosed || this.#tearingDown || this.#info !== undefined) return;
    this.#tearingDown = true;
    this._teardown();
  }

  #fail(error: VerbmqError, initiator: 'local' | 'remote', reasonForPeer: string | undefined): void {
    if (this.#info !== undefined || this.#state === 'closed') return;
    this.#info = { graceful: false, initiator, error };
    this.#state = 'closing';
    this.#stopCloseTimer();
    this.#sendQueue.fail(error);
    this.#settleDrain(error);
    this.#inbox.finish(error, error.code === 'ERR_VERBMQ_ABORTED');
    this._kill(error, reasonForPeer);
  }

  #settleDrain(error: VerbmqError | undefined): void {
    for (const waiter of this.#drainWaiters.splice(0)) {
      if (error === undefined) waiter.resolve();
      else waiter.reject(error);
    }
  }

  #stopCloseTimer(): void {
    clearTimeout(this.#closeTimer);
    this.#closeTimer = undefined;
  }

  #logInfo(info: CloseInfo): void {
    if (info.error === undefined) this._logger.debug({ initiator: info.initiator }, 'connection closed');
    else this._logger.warn({ initiator: info.initiator, err: info.error }, 'connection ended');
  }
}

/** One-sided operations that may be pending on one connection; the next one is refused. */
const MAX_OPERATIONS = 65_536;

/** The most of a reason that travels to the peer. */
const MAX_REASON_BYTES = 1024;

/** At most {@link MAX_REASON_BYTES} of UTF-8, cut between characters. */
function shorten(reason: string): string {
  return reason.slice(0, new TextEncoder().encodeInto(reason, new Uint8Array(MAX_REASON_BYTES)).read);
}
