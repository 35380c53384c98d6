// Longer than 300 lines because it is the contract: half of it is documentation of the public methods, in one place.
import type { HostAddress, PathAddress } from './address.js';
import type { Capabilities } from './capabilities.js';
import { ConnectionHooks, NOT_TAKEN } from './connection-hooks.js';
import { channels } from './diagnostics.js';
import type { DirectReceiver } from './direct-receiver.js';
import { VerbmqError } from './errors.js';
import { Inbox, type MessageHandler } from './inbox.js';
import type { KeptSends } from './kept-sends.js';
import { type CloseInfo, type ConnectionState, Lifecycle } from './lifecycle.js';
import type { Logger } from './logger.js';
import {
  checkMemoryToExpose,
  type DescriptorFields,
  decodeDescriptor,
  type ExposedMemory,
  encodeDescriptor,
  type MemoryAccess,
  type MemoryDescriptor,
  type RemoteMemory,
  resolveMemoryAccess,
} from './memory.js';
import { keepInPlace } from './memory-in-place.js';
import { DebugMessageOwner, Message } from './message.js';
import type { MessageHead } from './message-head.js';
import { PendingOperations } from './operations.js';
import { checkInteger, describe, type ResolvedConnectionOptions } from './options.js';
import { Outbox } from './outbox.js';
import { OutgoingLease } from './outgoing-lease.js';
import type { OutgoingRoom } from './outgoing-room.js';
import { AttachedMemory, type RemoteMemoryHooks, type TransferPiece } from './remote-memory.js';
import type { WaitingSend } from './send-queue.js';
import type { ConnectionStats } from './stats.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_NOT_TAKEN = NOT_TAKEN;

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

let connections = 0;

/**
 * An ordered, reliable stream of whole messages between two peers, and one-sided access to each other's exposed memory.
 *
 * Every public method checks its arguments and the connection's state here, once, and then calls a hook (`_…`) of
 * the transport; so all transports answer every wrong use alike. Methods that return a promise reject, the others
 * throw: `TypeError` and `RangeError` for mistakes in the program, {@link VerbmqError} for everything else.
 */
export abstract class Connection extends ConnectionHooks implements RemoteMemoryHooks, AsyncDisposable {
  /** Unique within this process. */
  readonly id: number = ++connections;
  /** The transport that carries it: `tcp`, `tls`, `unix`, `rdma`, `memory`; `auto` for one that may change its path. */
  readonly kind: string;
  /** `out`: this side connected. `in`: a listener of this side accepted it. */
  readonly direction: 'in' | 'out';
  /** This end, and the peer's. */
  readonly localAddress: HostAddress | PathAddress;
  readonly remoteAddress: HostAddress | PathAddress;
  /** What is native, what is emulated, and what cannot be had. */
  readonly capabilities: Capabilities;
  /** The longest message that this connection carries, in bytes: the smaller of both sides' limits. */
  readonly maxMessageBytes: number = 0;
  /** Resolves, never rejects, when the connection has ended and all that it held of the system is given back. */
  readonly closed: Promise<CloseInfo>;

  protected readonly _options: ResolvedConnectionOptions;
  protected readonly _logger: Logger;

  /**
   * Read-only for transports; a field, for it is asked for with each message: whether the next one waits for the application. If not, it
   * is handled, and unless it is retained released, before `_receive` returns.
   */
  protected _nextWaits = true;
  /** Likewise: who gets the next message without a `Message` for it, if somebody does. */
  protected _direct: DirectReceiver | undefined = undefined;
  /** Likewise: whether no message may be sent past `send` and `trySend`, for the connection is not open, or others wait. */
  protected _blocked = false;

  readonly #inbox = new Inbox(() => this.#receivesOrNot());
  readonly #outbox: Outbox;
  readonly #operations: PendingOperations;
  readonly #lifecycle: Lifecycle;
  readonly #debugOwner: DebugMessageOwner | undefined;
  #directReceiver: DirectReceiver | undefined;
  /** Whether those that wait are looked at soon. */
  #advances = false;
  #messagesReceived = 0;
  #bytesReceived = 0;

  constructor(init: ConnectionInit) {
    super();
    this.kind = init.kind;
    this.direction = init.direction;
    this.localAddress = init.localAddress;
    this.remoteAddress = init.remoteAddress;
    this.capabilities = init.capabilities;
    this.maxMessageBytes = init.maxMessageBytes;
    this._options = init.options;
    this._logger = init.options.logger.child({ connection: this.id, transport: init.kind });
    this.#debugOwner = init.options.debugLeases ? new DebugMessageOwner(this) : undefined;
    this.#operations = new PendingOperations(() => this.#progressed());
    this.#outbox = new Outbox(init.options.maxQueuedBytes, {
      submit: (data, lease, mayBorrow) => this._submit(data, lease, mayBorrow),
      bufferedBytes: () => this._bufferedBytes(),
      awaitLeaving: () => this._awaitLeaving(),
      waitingChanged: () => this.#sendsOrNot(),
    });
    this.#lifecycle = new Lifecycle(init.options.closeTimeoutMs, {
      busy: () => this.#outbox.waiting > 0 || this.#operations.pending > 0,
      over: () => {
        this.#receivesOrNot();
        this.#sendsOrNot();
      },
      sendClose: () => this._sendClose(),
      teardown: () => this._teardown(),
      kill: (error, reasonForPeer) => this.#kill(error, reasonForPeer),
      ended: (info) => this.#ended(info),
    });
    this.closed = this.#lifecycle.closed;
  }

  /**
   * @internal Resolves, never rejects, when it is certain how the connection ends. After a failure `closed` may come much later: when
   * nothing of the system is held any more.
   */
  get ending(): Promise<CloseInfo> {
    return this.#lifecycle.ending;
  }

  /** Whether it is a part of something larger; see the option of that name. */
  get inner(): boolean {
    return this._options.inner;
  }

  /** `closing` from the first word of the end on, by whichever side; `closed` when `closed` resolves. */
  get state(): ConnectionState {
    return this.#lifecycle.state;
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  /**
   * Sends one message. Resolves when the transport has taken the bytes: the caller may then reuse its buffer; it
   * does not say that the peer has them. While the transport is above its high-water mark the promise waits.
   * Memory that is transferred or resized before fails the send with a `TypeError`, and the connection too where a part had left.
   * Messages arrive in the order of the calls. A lease passes to the connection with the call. The `data` of a
   * received message may be sent on and the message be released before the promise has resolved.
   *
   * Rejects with `ERR_VERBMQ_MESSAGE_TOO_LARGE`, `ERR_VERBMQ_SEND_QUEUE_FULL`, `ERR_VERBMQ_CLOSED`,
   * `ERR_VERBMQ_LEASE_RELEASED`, or with the error that ended the connection while the send waited (with
   * `outcome: 'unknown'` when a part had left).
   */
  send(data: Uint8Array | OutgoingLease): Promise<void> {
    try {
      const lease = data instanceof OutgoingLease ? data : undefined;
      return this.#outbox.send(this.#checkSend(data, lease), lease);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Sends one message if there is room for it now. `false`: nothing was done, a lease still belongs to the caller.
   * Always takes the bytes before it returns. It throws what `send` rejects with.
   */
  trySend(data: Uint8Array | OutgoingLease): boolean {
    const lease = data instanceof OutgoingLease ? data : undefined;
    return this.#outbox.trySend(this.#checkSend(data, lease), lease);
  }

  /**
   * Leases a buffer of `bytes` bytes to be filled and sent with no copy. Its content is not initialised. It is the caller's until it is
   * sent on this connection or released.
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` when the transport's memory is used up,
   *   `ERR_VERBMQ_MESSAGE_TOO_LARGE` beyond `maxMessageBytes`, `ERR_VERBMQ_CLOSED`.
   */
  allocate(bytes: number): OutgoingLease {
    checkInteger('bytes', bytes, 0, Number.MAX_SAFE_INTEGER);
    this.#lifecycle.assertOpen('allocate');
    this.#assertLength(bytes);
    return this._allocate(bytes);
  }

  /** Resolves as soon as nothing that was sent is left in this process; rejects when the connection ends before. */
  drain(): Promise<void> {
    if (this.#lifecycle.decided) return Promise.reject(this.#lifecycle.closedError('drain'));
    return this.#outbox.drain();
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
   * that had arrived. While the loop is busy the peer is held back. Leaving the loop detaches it. Who has several calls of `next()`
   * pending, and goes on working on a message while it asks for another one, retains it. What is asked for together is kept as by `retain()`
   * until it is released, so that it does not hold back the peer.
   * @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when a handler or an iterator is attached.
   */
  messages(): AsyncIterableIterator<Message, undefined> {
    return this.#inbox.attachIterator();
  }

  /** The same as {@link messages}. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Message, undefined> {
    return this.messages();
  }

  /** Holds back the handler's messages, and by and by the peer. One-sided operations and `close` still work. */
  pause(): void {
    this.#inbox.pause();
  }

  /** Ends `pause()`: what has come meanwhile is handled first. */
  resume(): void {
    this.#inbox.resume();
  }

  // ---- for a layer upon this connection, as auto is -------------------------------------------------------------

  /** @internal Whoever the peer is, it may send what was agreed on from now on: `maxGreetingBytes` is over. */
  greeted(): void {
    this._greeted();
  }

  /**
   * @internal As `send`, of memory that nobody else uses or changes. Answers with the send itself where it waits, which `withdraw`
   * takes back.
   * @throws VerbmqError as `send` rejects.
   */
  sendOrWait(data: Uint8Array): WaitingSend | Promise<void> {
    return this.#outbox.sendOrWait(this.#checkSend(data, undefined));
  }

  /** @internal Takes back a send that waits: nothing of it leaves, and it is settled as if it had. `false`: it waits no more. */
  withdraw(waiting: WaitingSend): boolean {
    if (!this.#outbox.withdraw(waiting)) return false;
    this.#progressed(); // it may have been the last thing before the close
    if (this.#outbox.waiting > 0 && !this.#advances) {
      this.#advances = true;
      process.nextTick(this.#advance);
    }
    return true;
  }

  /** What stood behind what was taken back may need less, and then nobody says that there is room. Others may be taken back in this turn. */
  readonly #advance = (): void => {
    this.#advances = false;
    this._roomAvailable();
  };

  // ---- the same: what it calls for each message ---------------------------------------------------------------

  /**
   * @internal `trySend` of a message whose header lies elsewhere, on a connection that is open; the arguments are those of
   * `_submitBehind`, and right.
   */
  trySendBehind(head: MessageHead, headerBytes: number, data: Uint8Array): boolean {
    const taken = this.#outbox.waiting === 0 && this._submitBehind(head, headerBytes, data);
    return this.#outbox.tried(taken, headerBytes + data.length);
  }

  /**
   * @internal The same for a header of four words; see `_submitBehindWords`, also for the answer. `NOT_TAKEN` also where the connection
   * is not open. What is sent like this is not in the `stats`: the layer counts its own messages.
   */
  trySendBehindWords(a: number, b: number, c: number, d: number, data: Uint8Array): number {
    return this._blocked ? OWN_NOT_TAKEN : this._submitBehindWords(a, b, c, d, data);
  }

  /**
   * @internal From now on a message for which `trySendBehindWords` answers `KEPT` stays where it left from, for a layer that may have to
   * send it again, until `takeBack` is called with all of them: when their place is needed, before anything else is sent, or by
   * `giveBackSent`. When it returns, they may be gone. The last `takeBack` counts. Not every transport keeps any.
   */
  keepSent(_takeBack: (sent: KeptSends) => void): void {}

  /** @internal Calls it now, if there are some. */
  giveBackSent(): void {}

  /**
   * @internal The longest message, in bytes, whose two parts `trySendBehind` copies straight to where it leaves from; 0 where it
   * puts them together first.
   */
  get maxPartsBytes(): number {
    return 0;
  }

  /** @internal How long a message may be that is written in a room, in bytes; 0 where there are none. */
  get roomBytes(): number {
    return 0;
  }

  /** @internal Room to write a message in, on a connection that is open; see `_reserve`. */
  reserve(): OutgoingRoom | undefined {
    return this.#outbox.waiting > 0 ? undefined : this._reserve();
  }

  /** @internal `trySend` of the first `bytes` bytes of `room`. `false`: nothing was sent, and `unreserve` is due. */
  trySendReserved(room: OutgoingRoom, bytes: number): boolean {
    // Others may have been sent since `reserve`, and wait.
    return (
      this.state === 'open' &&
      this.#outbox.tried(this.#outbox.waiting === 0 && this._submitReserved(room, bytes), bytes)
    );
  }

  /** @internal Nothing is sent from `room`. */
  unreserve(room: OutgoingRoom): void {
    this._unreserve(room);
  }

  /**
   * @internal Messages that need not wait for the handler go there instead. `undefined` ends that. They are in the `stats` only where the
   * receiver calls `countReceived`.
   */
  receiveDirectly(receiver: DirectReceiver | undefined): void {
    this.#directReceiver = this.#debugOwner === undefined ? receiver : undefined;
    this.#receivesOrNot();
  }

  /** @internal A message of so many bytes was received. */
  countReceived(bytes: number): void {
    this.#messagesReceived++;
    this.#bytesReceived += bytes;
  }

  // ---- one-sided memory ------------------------------------------------------------------------------------

  /**
   * Makes local memory reachable for the peer, who needs the descriptor: so many zeroed bytes, or memory of the
   * application's own, which may be exposed on several connections and can from then on not be transferred to
   * another thread. The access ends with `revoke()` or with the connection.
   * Rejects with `ERR_VERBMQ_NO_BUFFERS` or `ERR_VERBMQ_MEMLOCK` when the memory cannot be had, and with
   * `ERR_VERBMQ_CLOSED`, `ERR_VERBMQ_UNSUPPORTED`; with a TypeError or RangeError for memory that cannot be exposed.
   * @param memory a length in bytes, or an array in an `ArrayBuffer` of fixed length; for atomics it starts at a multiple of 8.
   */
  async expose(memory: number | Uint8Array, access: MemoryAccess): Promise<ExposedMemory> {
    const granted = resolveMemoryAccess(access);
    const bytes = checkMemoryToExpose(memory, granted);
    this.#lifecycle.assertOpen('expose');
    this.#assertSupported('oneSided', 'exposing memory');
    if (granted.atomic) this.#assertSupported('atomics', 'exposing memory for atomics');
    // Whoever works on it, a device among them, must find it where it is.
    if (typeof memory !== 'number') keepInPlace(memory.buffer);
    const exposed = await this._expose(memory, granted);
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
   * @throws VerbmqError `ERR_VERBMQ_INVALID_DESCRIPTOR` for a string that is not a descriptor, `ERR_VERBMQ_CLOSED`,
   *   `ERR_VERBMQ_UNSUPPORTED`.
   */
  attach(descriptor: MemoryDescriptor): RemoteMemory {
    const fields = decodeDescriptor(descriptor);
    this.#lifecycle.assertOpen('attach');
    this.#assertSupported('oneSided', 'attaching memory');
    return new AttachedMemory(this, fields);
  }

  // ---- life ------------------------------------------------------------------------------------------------

  /**
   * Ends the connection in order: nothing more is accepted on either side, and all that was accepted is delivered.
   * Messages that arrive meanwhile still reach the handler or iterator; without one they are dropped. Never
   * rejects; the answer says whether all went well. Aborts with `ERR_VERBMQ_CLOSE_TIMEOUT` where it is not delivered after `closeTimeoutMs`.
   */
  close(): Promise<CloseInfo> {
    this.#lifecycle.beginClose('local');
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
    this.#lifecycle.fail(
      new VerbmqError('ERR_VERBMQ_ABORTED', `this side aborted the connection: ${reason}`),
      'local',
      shorten(reason),
    );
  }

  /** Closes it in order: `await using connection = …`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Counters, as they are at this moment. */
  stats(): ConnectionStats {
    return {
      messagesSent: this.#outbox.messagesSent,
      bytesSent: this.#outbox.bytesSent,
      messagesReceived: this.#messagesReceived,
      bytesReceived: this.#bytesReceived,
      sendsWaiting: this.#outbox.waiting,
      bytesWaiting: this.#outbox.bytesWaiting,
      bytesBuffered: this.state === 'closed' ? 0 : this._bufferedBytes(),
      messagesQueued: this.#inbox.length,
      backpressureEvents: this.#outbox.backpressureEvents,
    };
  }

  // ---- what a transport calls ------------------------------------------------------------------------------

  /** A whole message has arrived. `token` comes back with `releaseMessage` or `retainMessage`. */
  protected _receive(data: Uint8Array, token: number): void {
    if (this._direct !== undefined) {
      this._direct.received(data, token);
      return;
    }
    if (this.#lifecycle.decided) {
      this.releaseMessage(token, data.byteLength);
      return;
    }
    this.countReceived(data.length); // its byteLength, which takes four times as long to ask for
    this.#inbox.push(
      this.#debugOwner === undefined ? new Message(data, this, token) : this.#debugOwner.wrap(data, token),
    );
  }

  /** As `_receive`, where the next message does not wait. */
  protected _handle(data: Uint8Array, token: number): void {
    this.countReceived(data.length);
    this.#inbox.handle(
      this.#debugOwner === undefined ? new Message(data, this, token) : this.#debugOwner.wrap(data, token),
    );
  }

  /** A message of so many bytes was sent past `send` and `trySend`. */
  protected _countSent(bytes: number): void {
    this.#outbox.count(bytes);
  }

  /** Whether there are sends for which `_submit` has answered `false`, and which wait for `_roomAvailable`. */
  protected get _sendsWait(): boolean {
    return this.#outbox.waiting > 0;
  }

  /** There is room again after `_submit` answered `false`, or buffered bytes have left. */
  protected _roomAvailable(): void {
    this.#outbox.flush();
    this.#progressed();
  }

  /** The peer said that nothing more will come; everything before it has been given to `_receive`. */
  protected _peerClosed(): void {
    if (this.#lifecycle.decided || this.#lifecycle.peerHasClosed) return;
    this.#inbox.finish(undefined, false);
    this.#lifecycle.peerClosed();
  }

  /** The connection broke. The first error counts; `_kill` follows. */
  protected _fail(error: VerbmqError, reasonForPeer?: string): void {
    this.#lifecycle.fail(error, 'remote', reasonForPeer);
  }

  /** In an orderly end: both sides have everything, and what is left to do is to give back what is held of the system. */
  protected _delivered(): void {
    this.#lifecycle.delivered();
  }

  /** Nothing of the system is held any more. */
  protected _finished(): void {
    this.#lifecycle.finished();
  }

  // ---- one-sided operations, from AttachedMemory ---------------------------------------------------------------

  /** @internal */
  remoteRead(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    return this.#runOperation('read', () => this._read(remote, offset, target));
  }
  /** @internal */
  remoteWrite(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    return this.#runOperation('write', () => this._write(remote, offset, data));
  }
  /** @internal */
  remoteReadv(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return this.#runOperation('readv', () => this._readv(remote, pieces), pieces.length);
  }
  /** @internal */
  remoteWritev(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return this.#runOperation('writev', () => this._writev(remote, pieces), pieces.length);
  }
  /** @internal */
  remoteFetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    this.#assertSupported('atomics', 'fetchAdd');
    return this.#runOperation('fetchAdd', () => this._fetchAdd(remote, offset, addend));
  }
  /** @internal */
  remoteCompareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    this.#assertSupported('atomics', 'compareAndSwap');
    return this.#runOperation('compareAndSwap', () =>
      this._compareAndSwap(remote, offset, expected, desired),
    );
  }

  // ---- private ---------------------------------------------------------------------------------------------

  // After each change of what they depend on.

  #sendsOrNot(): void {
    this._blocked = this.#lifecycle.over || this.#outbox.waiting > 0;
  }

  #receivesOrNot(): void {
    this._nextWaits = this.#inbox.holds || this.#lifecycle.decided;
    this._direct = this._nextWaits ? undefined : this.#directReceiver;
  }

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
    this.#lifecycle.assertOpen('send');
    this.#assertLength(bytes.length);
    return bytes;
  }

  #assertLength(bytes: number): void {
    if (bytes <= this.maxMessageBytes) return;
    throw new VerbmqError(
      'ERR_VERBMQ_MESSAGE_TOO_LARGE',
      `a message of ${bytes} bytes exceeds the ${this.maxMessageBytes} bytes that both sides accept: raise maxMessageBytes on both, or split it`,
    );
  }

  #assertSupported(capability: 'oneSided' | 'atomics', what: string): void {
    if (this.capabilities[capability] === 'none') throw this._unsupported(what);
  }

  #runOperation<T>(name: string, operation: () => Promise<T>, count = 1): Promise<T> {
    this.#lifecycle.assertOpen(name);
    return this.#operations.run(operation, count);
  }

  #progressed(): void {
    if (this.#lifecycle.decided) return;
    this.#outbox.settleDrainIfEmpty();
    this.#lifecycle.progressed();
  }

  #kill(error: VerbmqError, reasonForPeer: string | undefined): void {
    this.#outbox.fail(error);
    this.#inbox.finish(error, error.code === 'ERR_VERBMQ_ABORTED');
    this._kill(error, reasonForPeer);
  }

  #ended(info: CloseInfo): void {
    // In an orderly end everything has left by now; after a failure nobody waits any more.
    this.#outbox.finish();
    if (info.error === undefined) this._logger.debug({ initiator: info.initiator }, 'connection closed');
    else
      this._logger[this.#endLevel(info.error)](
        { initiator: info.initiator, err: info.error },
        'connection ended',
      );
    if (channels.connectionClose.hasSubscribers && !this.inner)
      channels.connectionClose.publish({ connection: this, info });
  }

  /** That a layer upon this connection has given it up, on either side, is that layer's to tell: it may do so for every attempt that it makes. */
  #endLevel({ code }: VerbmqError): 'debug' | 'warn' {
    return this.inner && (code === 'ERR_VERBMQ_ABORTED' || code === 'ERR_VERBMQ_PEER_ABORTED')
      ? 'debug'
      : 'warn';
  }
}

/** The most of a reason that travels to the peer. */
const MAX_REASON_BYTES = 1024;

/** At most {@link MAX_REASON_BYTES} of UTF-8, cut between characters. */
function shorten(reason: string): string {
  return reason.slice(0, new TextEncoder().encodeInto(reason, new Uint8Array(MAX_REASON_BYTES)).read);
}
