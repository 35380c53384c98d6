import { expand, FrameKind, getUint32, HEADER_BYTES, protocolError, putUint32 } from './frames.js';
import { chargeOf, Receipts } from './receipts.js';
import { Retention } from './retention.js';

/** A path by its number: 0 is the base connection, and each fast connection of a session has the next number. */
export type PathNumber = number;
export const BASE: PathNumber = 0;

/** What the session does to the world. None of it calls back into the session before it returns. */
export interface SessionHooks {
  /** Whether a path takes a frame now. When it does again after it did not, `pump` is called. */
  writable(path: PathNumber): boolean;
  /** Puts a frame on a writable path, behind all before. The bytes do not change while the frame is kept. */
  write(path: PathNumber, frame: Uint8Array): void;
  /**
   * The same for a short message, without a frame made of it: the header lies at `at` in `memory`, and behind it for the case
   * that it must be repeated a copy of `data`. If the path takes no more, nothing was done.
   */
  writeShort(path: PathNumber, memory: Uint8Array, at: number, data: Uint8Array): boolean;
  /** Puts a frame on the base connection, behind all before, whether that is writable or not. */
  control(frame: Uint8Array): void;
  /** Whether a fast connection is proved and, as far as this side knows, alive. */
  alive(path: PathNumber): boolean;
  /** Both sides have agreed: from now on data leaves on this path. */
  moved(path: PathNumber): void;
}

export interface SessionInit {
  /** What may be under way in each direction, in charges; agreed by both sides. */
  readonly windowBytes: number;
  /** What may wait here while no data leaves, with what the peer has not acknowledged. */
  readonly highWaterMarkBytes: number;
  /** Whether data never leaves on the base connection. Default false. */
  readonly requiresFast?: boolean;
  /** The number of the last frame before the first, of both directions; for tests of the wrap. Default 0. */
  readonly firstNumber?: number;
}

/** An epoch that is further ahead than this cannot come about between two sides that keep the protocol. */
const MAX_EPOCHS_AHEAD = 16;

/**
 * One side's half of a session: which frame is the next, which are kept, and on which path they leave. It has no
 * timers and does no input or output, so that tests can drive two of them through every order of events.
 *
 * **Why nothing is lost, repeated or reordered.** Frames are numbered, and the receiver takes number n + 1 after n and
 * nothing else: what it has is dropped, from whichever path it comes. A path is in order and breaks but never skips.
 * A sender changes its path only in a new *epoch*, which begins when both sides have told each other on the base connection
 * what they have received; it goes on from there. So the frames of each path, from the first of an epoch on, begin at a
 * number that the receiver has or expects, and a gap can only be a broken peer.
 *
 * **Why both sides agree on the path.** In each epoch each side says SWITCH once, with the path that it can use. The
 * path is the fast one only if both named the same one; else it is the base. Who learns of a higher epoch takes part in
 * it; what is lower, or said twice, means nothing any more. So requests may cross or be repeated.
 */
export class Session {
  readonly #hooks: SessionHooks;
  readonly #windowBytes: number;
  readonly #highWaterMarkBytes: number;
  readonly #requiresFast: boolean;

  // Out.
  /** What the peer has not acknowledged. */
  readonly kept: Retention;
  /** The last number that was written in this epoch, or that the peer had when the epoch began. */
  #written: number;
  /** All that was ever charged for messages, and what the peer has given back of it. */
  #charged = 0;
  #credited = 0;

  /** The other direction. */
  readonly #receipts: Receipts;

  // The path.
  #epoch = 0;
  #path: PathNumber = BASE;
  /** What this side has named in the present epoch. */
  #named: PathNumber = BASE;
  /** The highest epoch in which the peer's SWITCH has come. */
  #heard = 0;
  /** Whether both have said SWITCH in the present epoch. */
  #agreed = true;
  #baseUp = true;

  constructor(init: SessionInit, hooks: SessionHooks) {
    const first = init.firstNumber ?? 0;
    this.#hooks = hooks;
    this.#windowBytes = init.windowBytes;
    this.#highWaterMarkBytes = init.highWaterMarkBytes;
    this.#requiresFast = init.requiresFast ?? false;
    this.kept = new Retention(first);
    this.#written = first;
    this.#receipts = new Receipts(init.windowBytes, first);
  }

  /** The path on which data leaves, or left last. */
  get path(): PathNumber {
    return this.#path;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** Whether data may leave: both sides have agreed on a path, it is there, and it is not the base where that carries none. */
  get flowing(): boolean {
    return this.#agreed && (this.#path !== BASE || (this.#baseUp && !this.#requiresFast));
  }

  /** Bytes of frames that the peer has not acknowledged. */
  get keptBytes(): number {
    return this.kept.bytes;
  }

  /** Whether the peer has everything that was submitted. */
  get allAcknowledged(): boolean {
    return this.kept.released === this.kept.last;
  }

  /** Whether something that was submitted has not been written in this epoch. */
  get unwritten(): boolean {
    return this.#written < this.kept.last;
  }

  /** Whether the peer does not know yet all that it could be told. */
  get untold(): boolean {
    return this.#receipts.untold;
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  /**
   * Whether a message may be submitted: the peer has room for it, and it leaves at once; or it is one of the few that may
   * wait here while no data leaves at all.
   */
  get hasRoom(): boolean {
    if (this.#charged - this.#credited >= this.#windowBytes) return false;
    if (!this.flowing) return this.kept.bytes < this.#highWaterMarkBytes;
    return this.#written === this.kept.last && this.#hooks.writable(this.#path);
  }

  /**
   * Sends a numbered frame as soon as it may leave: one with so many messages, for which there was room, or of another
   * kind. It lies in `memory` from `start` to `end`, is the session's from now on, and its header is filled in here.
   */
  submit(kind: number, memory: Uint8Array, messages = 0, start = 0, end = memory.length): void {
    this.#keep(kind, memory, messages, start, end);
    this.pump();
  }

  /** Sends a short message, for which there was room, in a frame of its own: `memory` has its copy behind room for the header. */
  submitShort(memory: Uint8Array, start: number, data: Uint8Array): void {
    this.#keep(FrameKind.DATA, memory, 1, start, start + HEADER_BYTES + data.length);
    if (!this.flowing) return;
    this.#receipts.stamp(memory, start);
    if (this.#hooks.writeShort(this.#path, memory, start, data)) this.#written++;
    else this.pump();
  }

  /** Writes what waits, as far as the path takes it. */
  pump(): void {
    if (!this.flowing) return;
    while (this.#written < this.kept.last) {
      if (!this.#hooks.writable(this.#path)) return;
      this.#written++;
      const frame = this.kept.get(this.#written);
      this.#receipts.stamp(frame);
      this.#hooks.write(this.#path, frame);
    }
    if (this.#receipts.due) this.tell();
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /**
   * A numbered frame of `bytes` bytes has come, at `at` in `memory`, on whichever path. Answers whether it is the next one, to be delivered now.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`
   */
  accept(memory: Uint8Array, at = 0, bytes = memory.length): boolean {
    this.acknowledged(memory, at);
    return this.#receipts.accept(memory, at, bytes);
  }

  /** The application is done with a message of so many bytes: the peer may send as much again. */
  consumed(bytes: number): void {
    if (this.#receipts.consume(bytes)) this.tell();
  }

  /** Tells what has become due to be told while a frame was handled, if no frame has taken it along. */
  settle(): void {
    if (this.#receipts.due) this.tell();
  }

  /** Tells the peer what has come and what was consumed, if it does not know. */
  tell(): void {
    const receipts = this.#receipts;
    receipts.due = receipts.untold; // until it has left
    if (!receipts.due || !this.flowing || !this.#hooks.writable(this.#path)) return;
    const frame = new Uint8Array(HEADER_BYTES);
    frame[0] = FrameKind.ACK;
    receipts.stamp(frame);
    this.#hooks.write(this.#path, frame);
  }

  /**
   * Takes what a numbered frame or an ACK says of the other direction. Answers whether it was news.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`
   */
  acknowledged(memory: Uint8Array, at = 0): boolean {
    const received = expand(getUint32(memory, at + 8), this.kept.released);
    const credit = expand(getUint32(memory, at + 12), this.#credited);
    // What comes late from an abandoned path says less than what is known, and that is no news.
    if (received <= this.kept.released && credit <= this.#credited) return false;
    this.#checkReceived(received);
    if (credit > this.#charged) throw protocolError('it gave back more than it was sent');
    if (received > this.kept.released) this.kept.releaseThrough(received);
    if (received > this.#written) this.#written = received;
    if (credit > this.#credited) this.#credited = credit;
    return true;
  }

  // ---- the path --------------------------------------------------------------------------------------------

  /** Asks the peer to move to a fast connection that both have proved. Does nothing when it cannot be now. */
  propose(path: PathNumber): void {
    if (this.#baseUp && this.#agreed && this.#path !== path && this.#hooks.alive(path)) this.#begin(path);
  }

  /** A fast connection has ended or is not to be used any more. */
  fastLost(path: PathNumber): void {
    if (!this.#agreed || this.#path !== path) return; // when the epoch is agreed it is seen to be gone
    if (this.#baseUp) this.#begin(BASE);
    else this.#agreed = false; // the resume begins an epoch
  }

  /** The base connection has ended. What is on a fast one goes on. */
  baseLost(): void {
    this.#baseUp = false;
  }

  /**
   * The base connection is there again. One side, the one that accepts, begins the next epoch; it passes the other's,
   * which may be ahead of its own.
   */
  baseResumed(peerEpoch?: number): void {
    this.#baseUp = true;
    if (peerEpoch === undefined) {
      // The other side begins. What was lost with the old connection does not matter: it knows our epoch.
      this.#agreed = false;
      return;
    }
    this.#assertEpoch(peerEpoch);
    this.#epoch = Math.max(this.#epoch, peerEpoch);
    this.#begin(this.#path);
  }

  /** A SWITCH has come. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  switched(frame: Uint8Array): void {
    if (frame.length !== HEADER_BYTES + 4) throw protocolError('a SWITCH has another length');
    const epoch = getUint32(frame, 4);
    if (epoch < this.#epoch || epoch <= this.#heard) return;
    this.#assertEpoch(epoch);
    const path = getUint32(frame, HEADER_BYTES);
    const received = expand(getUint32(frame, 8), this.kept.released);
    this.#checkReceived(received);
    this.acknowledged(frame);
    if (epoch > this.#epoch) {
      this.#epoch = epoch;
      this.#name(path);
    }
    this.#heard = epoch;
    this.#agreed = true;
    this.#path = path === this.#named ? path : BASE;
    // An acknowledgement on the fast path may have overtaken what was said here.
    this.#written = Math.max(received, this.kept.released);
    if (this.#path !== BASE && !this.#hooks.alive(this.#path)) {
      this.#begin(BASE);
      return;
    }
    this.#hooks.moved(this.#path);
    this.pump();
  }

  // ---- private ---------------------------------------------------------------------------------------------

  #keep(kind: number, memory: Uint8Array, messages: number, start: number, end: number): void {
    this.kept.push(memory, start, end);
    putUint32(memory, start, kind | (messages << 16));
    putUint32(memory, start + 4, this.kept.last); // the rest of the header when it is written
    if (messages > 0) this.#charged += chargeOf(kind, end - start, messages);
  }

  #begin(path: PathNumber): void {
    this.#epoch++;
    this.#name(path);
    this.#agreed = false;
  }

  /** Says, once in an epoch, which path this side can use in it, and what it has received. */
  #name(path: PathNumber): void {
    this.#named = path === BASE || this.#hooks.alive(path) ? path : BASE;
    const frame = new Uint8Array(HEADER_BYTES + 4);
    frame[0] = FrameKind.SWITCH;
    putUint32(frame, 4, this.#epoch);
    this.#receipts.stamp(frame);
    putUint32(frame, HEADER_BYTES, this.#named);
    this.#hooks.control(frame);
  }

  #checkReceived(received: number): void {
    if (received > this.kept.last)
      throw protocolError(`it acknowledged frame ${received}, and only ${this.kept.last} were sent`);
  }

  #assertEpoch(epoch: number): void {
    if (epoch > this.#epoch + MAX_EPOCHS_AHEAD)
      throw protocolError(`it speaks of epoch ${epoch}, and this side is at ${this.#epoch}`);
  }
}
