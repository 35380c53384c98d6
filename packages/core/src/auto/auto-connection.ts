// Longer than 300 lines because it is where the parts meet: each of them has a file of its own, and none of them the whole.
import { Connection, type ConnectionInit } from '../contract/connection.js';
import type { ExposedByTransport } from '../contract/connection-hooks.js';
import type { ReceiveMemory } from '../contract/direct-receiver.js';
import { VerbmqError } from '../contract/errors.js';
import type { CloseInfo } from '../contract/lifecycle.js';
import type { DescriptorFields, ResolvedMemoryAccess } from '../contract/memory.js';
import type { Message } from '../contract/message.js';
import { OutgoingLease } from '../contract/outgoing-lease.js';
import { MemoryRegions } from '../transport-kit/memory-regions.js';
import { nextTurn } from '../transport-kit/next-turn.js';
import type { AutoRole } from './auto-role.js';
import { endReason, errorOfEnd, lostError } from './end-reason.js';
import {
  assertNoPayload,
  FrameKind,
  getUint32,
  HEADER_BYTES,
  isNumbered,
  messagesOf,
  protocolError,
} from './frames.js';
import { CURRENT, Incoming, OWN } from './incoming.js';
import {
  MAX_PIECE_BYTES,
  OneSidedRequester,
  OPERATION_OVERHEAD_BYTES,
  OPERATION_WINDOW_BYTES,
  serveOperation,
} from './one-sided.js';
import { leaseMemory, Outgoing } from './outgoing.js';
import { Path, type PathHooks } from './path.js';
import { type PathInfo, type PathReason, PathReporter } from './path-info.js';
import { MESSAGE_OVERHEAD_BYTES } from './receipts.js';
import { BASE, type PathNumber, Session } from './session.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_HEADER_BYTES = HEADER_BYTES;
const OWN_CURRENT = CURRENT;
const OWN_BASE = BASE;

export interface AutoConnectionInit extends Omit<ConnectionInit, 'kind' | 'capabilities'> {
  readonly base: Connection;
  readonly windowBytes: number;
  readonly reason: PathReason;
  readonly peerReason: PathReason | undefined;
  /** Whether no data may take the base connection, by the policy of this side or of the peer. */
  readonly requiresFast: boolean;
  readonly makeRole: (connection: AutoConnection) => AutoRole;
}

/** What came is acknowledged so long after, in milliseconds, if no frame has taken it along before. */
const IDLE_TELL_MS = 100;

/**
 * A connection over a base connection and, while there is one, a faster one: messages move between the two, and to a new
 * base connection when the old one breaks, and none is lost, repeated or reordered by that. `session.ts` says why.
 */
export class AutoConnection extends Connection implements PathHooks {
  /** @internal */
  readonly session: Session;
  readonly #role: AutoRole;
  readonly #regions = new MemoryRegions();
  readonly #operations: OneSidedRequester;
  readonly #outgoing: Outgoing;
  readonly #incoming: Incoming;
  readonly #reporter: PathReporter;
  readonly #keptLimitBytes: number;
  readonly #keptLimitFrames: number;
  readonly #requiresFast: boolean;
  #base: Path | undefined;
  #fast: Path | undefined;
  /** Connections that are not used any more, and not gone. */
  readonly #leaving = new Set<Connection>();
  /** A send was refused, or somebody waits until everything has left. */
  #wanting = false;
  #tearingDown = false;
  #over = false;
  #tellTimer: NodeJS.Timeout | undefined;

  constructor(init: AutoConnectionInit) {
    super({ ...init, kind: 'auto', capabilities: CAPABILITIES });
    const { reason, peerReason, maxMessageBytes } = init;
    this.#requiresFast = init.requiresFast;
    const frameBytes = HEADER_BYTES + Math.max(MIN_FRAME_PAYLOAD_BYTES, maxMessageBytes);
    this.#reporter = new PathReporter(
      this,
      this._logger,
      { reason, ...(peerReason !== undefined && { peerReason }) },
      () => this.#carrier(),
    );
    // What a peer that keeps the protocol can make this side keep: a window of messages with the one that crosses its
    // limit, what this side asks of the peer's memory, and as much that it answers.
    this.#keptLimitBytes =
      init.windowBytes + init.maxMessageBytes + 3 * (OPERATION_WINDOW_BYTES + MAX_PIECE_BYTES);
    // The same of frames, however short: each counts something in its window.
    this.#keptLimitFrames =
      init.windowBytes / MESSAGE_OVERHEAD_BYTES + (3 * OPERATION_WINDOW_BYTES) / OPERATION_OVERHEAD_BYTES + 4;
    this.session = new Session(
      {
        windowBytes: init.windowBytes,
        highWaterMarkBytes: init.options.highWaterMarkBytes,
        requiresFast: init.requiresFast,
      },
      {
        writable: (path) => this.#pathOf(path)?.writable ?? false,
        write: (path, frame) => this.#pathOf(path)?.write(frame),
        shortWriter: (path) => this.#pathOf(path)?.connection,
        control: (frame) => this.#base?.control(frame),
        alive: (path) => this.#fast?.number === path && this.#fast.connection.state === 'open',
        moved: (path) => this.#moved(path),
      },
    );
    this.#outgoing = new Outgoing(this.session, frameBytes, init.options.highWaterMarkBytes, () => {
      if (!this.#over) this.#progress(); // somebody may have been waiting until it leaves, and no path knows of that
    });
    this.#incoming = new Incoming(maxMessageBytes, frameBytes, {
      handlesAtOnce: () => !this._nextWaits,
      deliver: (data, token) => this._receive(data, token),
      handle: (data) => {
        if (this._nextWaits) return false;
        this.session.handled(data.length);
        this._handle(data, CURRENT);
        return true;
      },
      consumed: (bytes) => this.session.consumed(bytes),
    });
    this.#operations = new OneSidedRequester(this.session, frameBytes);
    this.#base = new Path(BASE, init.base, this);
    this.#role = init.makeRole(this);
  }

  /** Which way the data takes at the moment, and why not the fast one. */
  get path(): PathInfo {
    return this.#reporter.path;
  }

  /** Tells each change of the path. Returns the function that detaches the handler. */
  onPath(handler: (path: PathInfo) => void): () => void {
    if (typeof handler !== 'function') throw new TypeError('handler must be a function');
    return this.#reporter.subscribe(handler);
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  /** Most messages are the answer to one that is being handled: those take a way of their own. */
  override trySend(data: Uint8Array | OutgoingLease): boolean {
    if (
      data instanceof Uint8Array &&
      !this._blocked &&
      data.length <= this.maxMessageBytes &&
      this.#outgoing.answer(data)
    ) {
      this._countSent(data.length);
      return true;
    }
    return super.trySend(data);
  }

  protected override _submit(data: Uint8Array, lease: OutgoingLease | undefined): boolean {
    if (this.#outgoing.submit(data, lease)) return true;
    this.#wanting = true;
    return false;
  }

  protected override _allocate(bytes: number): OutgoingLease {
    return new OutgoingLease(leaseMemory(bytes), this, 0);
  }

  protected override _bufferedBytes(): number {
    const pending = this.#outgoing.bytes;
    if (this.session.allAcknowledged && pending === 0) return 0;
    const below = (this.#base?.bufferedBytes ?? 0) + (this.#fast?.bufferedBytes ?? 0);
    return pending + below + (this.session.unwritten ? this.session.keptBytes : 0);
  }

  protected override _awaitLeaving(): void {
    this.#wanting = true;
    this.#base?.awaitLeaving();
    this.#fast?.awaitLeaving();
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  override releaseMessage(token: number, bytes: number): void {
    if (token === OWN_CURRENT) return;
    if (token === OWN) this.session.consumed(bytes);
    else this.#incoming.release(token, bytes);
  }

  override retainMessage(token: number, data: Uint8Array): Uint8Array | undefined {
    return this.#incoming.retain(token, data);
  }

  /**
   * @internal A frame has come. Most are one message, the next in order, that is handled at once on the fast path: those take a
   * way of their own, on which nothing is asked twice. All others take the one for every frame.
   */
  arrivedAt(path: Path, memory: ReceiveMemory, at: number, bytes: number, token: number): void {
    const messageBytes = bytes - OWN_HEADER_BYTES;
    if (
      path.number !== OWN_BASE &&
      messageBytes >= 0 &&
      messageBytes <= this.maxMessageBytes &&
      !this._nextWaits &&
      this.session.handle(memory.words, at / 4, messageBytes)
    ) {
      this.#outgoing.hold(true);
      this._handle(memory.part(token, at + OWN_HEADER_BYTES, messageBytes), OWN_CURRENT);
      this.#handled();
    } else this.arrived(path, new Uint8Array(memory.buffer, at, bytes));
  }

  /** @internal A frame has come. */
  arrived(path: Path, frame: Uint8Array): void {
    if (this.#over) return;
    try {
      this.#frame(path, frame, undefined);
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      this._fail(error, error.message);
    }
  }

  /** @internal A long frame has come. */
  longArrived(path: Path, lease: Message): void {
    if (this.#over) return;
    try {
      this.#frame(path, lease.data, lease);
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      this._fail(error, error.message);
    }
  }

  #frame(path: Path, frame: Uint8Array, lease: Message | undefined): void {
    const { session } = this;
    if (frame.length < HEADER_BYTES) throw protocolError('a frame is shorter than its header');
    const kind = (frame[0] as number) | ((frame[1] as number) << 8); // byte 1 is 0 in every kind that there is
    if (this.#requiresFast && path.number === BASE && isNumbered(kind))
      throw protocolError('it sent data on the base connection, and the fast path is required');
    this.#outgoing.hold(kind === FrameKind.DATA);
    if (kind === FrameKind.DATA || kind === FrameKind.BATCH) {
      if (session.accept(frame)) {
        if (lease === undefined || kind === FrameKind.BATCH) this.#incoming.frame(frame);
        else this.#incoming.longFrame(lease);
      }
    } else this.#otherFrame(path, kind, frame);
    this.#handled();
  }

  /** A frame has been handled. */
  #handled(): void {
    if (this.#over) return;
    this.#outgoing.flush(); // what was sent meanwhile
    if (this.session.untold) this.#settle();
    if (this.#wanting || this.#tearingDown) this.#progress();
  }

  #settle(): void {
    this.session.settle();
    if (this.session.untold) this.#tellSoon();
  }

  #otherFrame(path: Path, kind: number, frame: Uint8Array): void {
    const { session } = this;
    if (messagesOf(frame, 0) !== 0) throw protocolError(`a frame of kind ${kind} says that it has messages`);
    switch (kind) {
      case FrameKind.CLOSE:
        assertNoPayload(frame);
        if (session.accept(frame)) this._peerClosed();
        break;
      case FrameKind.OPERATION:
        if (!session.accept(frame)) break;
        if (session.keptBytes > this.#keptLimitBytes || session.keptFrames > this.#keptLimitFrames)
          throw protocolError('it asks for more than it acknowledges');
        serveOperation(session, this.#regions, frame);
        break;
      case FrameKind.ANSWER:
        if (session.accept(frame)) this.#operations.answered(frame);
        break;
      case FrameKind.ACK:
        assertNoPayload(frame);
        if (getUint32(frame, 4) !== 0) throw protocolError('an ACK has a number');
        session.acknowledged(frame);
        break;
      case FrameKind.SWITCH:
        assertOnBase(path, kind);
        session.switched(frame);
        break;
      default:
        assertOnBase(path, kind);
        this.#role.negotiation(kind, frame);
    }
  }

  /** What came last is told also to a peer to which nothing is sent: it keeps its frames until then. */
  #tellSoon(): void {
    if (this.#tellTimer !== undefined) return;
    this.#tellTimer = setTimeout(() => {
      this.#tellTimer = undefined;
      this.session.tell();
    }, IDLE_TELL_MS);
    this.#tellTimer.unref();
  }

  // ---- paths -----------------------------------------------------------------------------------------------

  /** @internal */
  room(path: Path): void {
    if (this.#over) return;
    if (path.number === this.session.path) this.session.pump();
    this.#progress();
  }

  /** @internal A connection below has ended. */
  ended(path: Path, info: CloseInfo): void {
    if (this.#over) return;
    const last = info.error === undefined ? undefined : errorOfEnd(info.error);
    if (last !== undefined) {
      this._fail(last);
    } else if (path === this.#base) {
      this.#base = undefined;
      this.session.baseLost();
      this.#reporter.tell();
      if (!this.#maybeFinish()) this.#role.baseLost(lostError(info.error));
    } else if (path === this.#fast) this.dropFast('broken', info.error?.message);
  }

  /** @internal The base connection is there again; see `Session.baseResumed`. An old one is let go. */
  resumeOn(base: Connection, peerEpoch?: number): void {
    const old = this.#base;
    old?.leave();
    if (old !== undefined) this.#letGo(old.connection, 'this connection was replaced');
    this.session.baseLost();
    this.#base = new Path(BASE, base, this);
    this.session.baseResumed(peerEpoch);
    this.#reporter.tell();
  }

  /** @internal A fast connection is proved. It takes data when both sides have agreed. */
  adoptFast(number: PathNumber, connection: Connection): void {
    if (!this.#over && this.#fast !== undefined) this.dropFast('broken');
    // Perhaps by that: a session that requires the path that it is on ends with it.
    if (this.#over) {
      connection.abort('the session has ended');
      return;
    }
    this.#fast = new Path(number, connection, this);
  }

  /** @internal The fast connection is not used any more. `false`: there is none. */
  dropFast(reason: PathReason, explanation?: string): boolean {
    const fast = this.#fast;
    if (fast === undefined) return false;
    this.#fast = undefined;
    this.explain(reason, explanation, null);
    fast.leave();
    this.#letGo(fast.connection, 'the session has left this path');
    this.session.fastLost(fast.number);
    this.#reporter.tell();
    this.#role.fastLost();
    return true;
  }

  /** What a connection below holds of the system is this one's until it is given back. */
  #letGo(connection: Connection, why: string): void {
    connection.abort(why);
    this.#leaving.add(connection);
    void connection.closed.then(() => this.#leaving.delete(connection));
  }

  /** @internal Says why the connection is not on its fast path. */
  explain(reason: PathReason, explanation?: string, peerReason?: PathReason | null): void {
    this.#reporter.explain(reason, explanation, peerReason);
  }

  /** @internal Sends a frame of the negotiation on the base connection. */
  sendControl(frame: Uint8Array): void {
    this.#base?.control(frame);
  }

  /** @internal */
  get baseUp(): boolean {
    return this.#base !== undefined;
  }

  /** @internal The session cannot go on. What the peer had not acknowledged may have arrived or not. */
  fail(error: VerbmqError): void {
    this.#outgoing.flush(); // a message that waits for the end of this turn was taken like any other
    this._fail(this.session.allAcknowledged ? error : error.withUnknownOutcome());
  }

  #pathOf(path: PathNumber): Path | undefined {
    if (path === BASE) return this.#base;
    return this.#fast?.number === path ? this.#fast : undefined;
  }

  #moved(path: PathNumber): void {
    if (path === BASE && this.#fast !== undefined)
      this.dropFast('peer-declined', 'the peer has left the fast path');
    this.#reporter.tell();
    this.#role.moved(path);
    // What waits goes when this frame is handled.
    this.#wanting = true;
  }

  #carrier(): { kind: string | undefined; fast: boolean; flowing: boolean } {
    const fast = this.session.path !== BASE;
    const kind = (fast ? this.#fast : this.#base)?.connection.kind;
    return { kind, fast, flowing: !this.#over && this.session.flowing && kind !== undefined };
  }

  #progress(): void {
    if (this.#wanting) {
      this.#wanting = false;
      this._roomAvailable();
    }
    if (this.#tearingDown) this.#maybeFinish();
  }

  // ---- one-sided memory --------------------------------------------------------------------------------------

  protected override async _expose(
    memory: number | Uint8Array,
    access: ResolvedMemoryAccess,
  ): Promise<ExposedByTransport> {
    return this.#regions.expose(memory, access);
  }
  protected override _read(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    return this.#operations.read(remote, offset, target);
  }
  protected override _write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    return this.#operations.write(remote, offset, data);
  }
  protected override _fetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    return this.#operations.fetchAdd(remote, offset, addend);
  }
  protected override _compareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    return this.#operations.compareAndSwap(remote, offset, expected, desired);
  }

  // ---- the end -----------------------------------------------------------------------------------------------

  /** Whether there is no path yet that data may take. */
  get #waitsForFast(): boolean {
    return this.#requiresFast && this.session.path === BASE;
  }

  /** A session that waits for a path cannot end in order: it ends at once. */
  override close(): Promise<CloseInfo> {
    const closed = super.close();
    if (!this.session.flowing && (this.#base === undefined || this.#waitsForFast))
      this.fail(new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'it was closed while it waited for a path'));
    return closed;
  }

  protected override _sendClose(): void {
    this.#outgoing.flush();
    this.session.submit(FrameKind.CLOSE, new Uint8Array(HEADER_BYTES));
  }

  protected override _teardown(): void {
    this.#tearingDown = true;
    this.#maybeFinish();
  }

  /** Ends in order when both have closed and each knows that the other has everything. */
  #maybeFinish(): boolean {
    if (this.#over || !this.#tearingDown || !this.session.allAcknowledged) return this.#over;
    this.session.tell(); // the peer waits for the word that its CLOSE has come
    if (this.session.untold) return false;
    this._delivered(); // a device may take longer than an application waits for its messages
    this.#giveBack((path) => path.connection.close());
    return true;
  }

  protected override _kill(error: VerbmqError, reasonForPeer: string | undefined): void {
    this.#operations.fail(error);
    const reason = endReason(error, reasonForPeer);
    this.#giveBack((path) => {
      path.connection.abort(reason);
      return path.connection.closed;
    });
  }

  #giveBack(end: (path: Path) => Promise<unknown>): void {
    this.#over = true;
    this.#reporter.end();
    clearTimeout(this.#tellTimer);
    this.#regions.clear();
    this.#role.ended();
    const paths = [this.#fast, this.#base].filter((path) => path !== undefined);
    for (const path of paths) path.leave();
    const ended = [...paths.map(end), ...[...this.#leaving].map(({ closed }) => closed)];
    // `_finished` never comes within the call that ended the connection.
    void Promise.all([...ended, nextTurn()]).then(() => this._finished());
  }
}

const CAPABILITIES = {
  oneSided: 'emulated',
  atomics: 'emulated',
  largeMessages: 'native',
  zeroCopySend: 'emulated',
} as const;

/** Every path takes frames with so much payload, however short the messages are. */
export const MIN_FRAME_PAYLOAD_BYTES = 512;

/** What is not data belongs on the base connection. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
function assertOnBase(path: Path, kind: number): void {
  if (path.number !== BASE) throw protocolError(`a frame of kind ${kind} came on a fast path`);
}
