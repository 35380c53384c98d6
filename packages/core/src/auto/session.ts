// Longer than 300 lines because the argument why nothing is lost needs all of it in one place.
import { KEPT, NOT_TAKEN } from '../contract/connection-hooks.js';
import type { KeptSends } from '../contract/kept-sends.js';
import { uninitialised } from './frame-memory.js';
import {
  expand,
  FrameKind,
  getUint32,
  HEADER_BYTES,
  ONE_MESSAGE,
  protocolError,
  putUint32,
} from './frames.js';
import { chargeOf, MESSAGE_OVERHEAD_BYTES, Receipts } from './receipts.js';
import { Retention } from './retention.js';
import {
  BASE,
  type FrameCopies,
  type PathNumber,
  type SessionHooks,
  type SessionInit,
  type ShortWriter,
} from './session-hooks.js';

export { BASE, type PathNumber } from './session-hooks.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const OWN_HEADER_BYTES = HEADER_BYTES;
const OWN_OVERHEAD_BYTES = MESSAGE_OVERHEAD_BYTES;
const OWN_ONE_MESSAGE = ONE_MESSAGE;
const OWN_KEPT = KEPT;
const OWN_NOT_TAKEN = NOT_TAKEN;
const OWN_BASE = BASE;

/** An epoch that is further ahead than this cannot come about between two sides that keep the protocol. */
const MAX_EPOCHS_AHEAD = 16;
/** But each attempt to resume whose answer was lost has begun one at the other side. */
const MAX_LOST_EPOCHS = 2 ** 24;

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
export class Session extends Receipts {
  readonly #hooks: SessionHooks;
  readonly #windowBytes: number = 0;
  readonly #highWaterMarkBytes: number;
  readonly #requiresFast: boolean;
  readonly #firstNumber: number;

  // Out.
  /** The number of the last frame that was submitted. */
  #last = 0;
  /** The number of the last frame that the peer has acknowledged. */
  #acknowledged = 0;
  /** The last number that was written in this epoch, or that the peer had when the epoch began. */
  #written = 0;
  /** What the peer has not acknowledged, but for the last ones where the short writer keeps those. */
  readonly #kept = new Retention();
  /** The number of the last frame that was put there. */
  #keptThrough = 0;
  /** What messages were charged that the peer has not given back. */
  #outstanding = 0;
  /** All that it has ever given back, as on the wire: 32 bits. */
  #credited = 0;
  /** Where short messages leave, once that is known; not when no data leaves, or something has to leave before them. */
  #shortWriter: ShortWriter | undefined;

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
  /** Whether the other side is to begin an epoch, after a resume, of which nothing has been heard yet. */
  #awaitsEpoch = false;

  constructor(init: SessionInit, hooks: SessionHooks) {
    const first = init.firstNumber ?? 0;
    super(init.windowBytes, first);
    this.#hooks = hooks;
    this.#windowBytes = init.windowBytes;
    this.#highWaterMarkBytes = init.highWaterMarkBytes;
    this.#requiresFast = init.requiresFast ?? false;
    this.#firstNumber = first;
    this.#last = first;
    this.#acknowledged = first;
    this.#written = first;
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
    return this.#agreed && (this.#path !== OWN_BASE || (this.#baseUp && !this.#requiresFast));
  }

  /** The number of the last frame that was submitted. */
  get last(): number {
    return this.#last;
  }

  /** The number of the last frame that the peer has acknowledged. */
  get lastAcknowledged(): number {
    return this.#acknowledged;
  }

  /** Bytes of frames that the peer has not acknowledged. */
  get keptBytes(): number {
    this.#shortWriter?.giveBackSent();
    return this.#kept.bytes;
  }

  /** How many they are. */
  get keptFrames(): number {
    return this.#last - this.#acknowledged;
  }

  /** Whether the peer has everything that was submitted. */
  get allAcknowledged(): boolean {
    return this.#acknowledged === this.#last;
  }

  /** Whether a frame has come, or the peer has acknowledged one. */
  get carried(): boolean {
    return this._received > this.#firstNumber || this.#acknowledged > this.#firstNumber;
  }

  /** Whether something that was submitted has not been written in this epoch. */
  get unwritten(): boolean {
    return this.#written < this.#last;
  }

  // ---- sending ---------------------------------------------------------------------------------------------

  /**
   * Whether a message may be submitted: the peer has room for it, and it leaves at once; or it is one of the few that may
   * wait here while no data leaves at all.
   */
  get hasRoom(): boolean {
    if (this.#outstanding >= this.#windowBytes) return false;
    if (!this.flowing) return this.keptBytes < this.#highWaterMarkBytes;
    return this.#written === this.#last && this.#hooks.writable(this.#path);
  }

  /**
   * Sends a numbered frame as soon as it may leave: one with so many messages, for which there was room, or of another
   * kind. It lies in `memory` from `start` to `end`, is the session's from now on, and its header is filled in here.
   */
  submit(kind: number, memory: Uint8Array, messages = 0, start = 0, end = memory.length): void {
    this.#keep(kind, memory, messages, start, end);
    this.pump();
  }

  /**
   * Sends a short message in a frame of its own, if there is room for it and it leaves at once. If not, nothing was done. It is
   * kept where it leaves from, or else as a copy.
   */
  sendShort(data: Uint8Array, copies: FrameCopies): boolean {
    if (this.#outstanding >= this.#windowBytes) return false;
    const writer = this.#shortWriter ?? this.#findShortWriter();
    if (writer === undefined) return false;
    const number = this.#last + 1;
    const taken = writer.trySendBehindWords(
      OWN_ONE_MESSAGE,
      number | 0,
      this._received | 0,
      this._consumed,
      data,
    );
    if (taken === OWN_NOT_TAKEN) return false;
    this._told();
    const { length } = data;
    if (taken !== OWN_KEPT) {
      copies.single(data);
      this.#put(
        number,
        OWN_ONE_MESSAGE,
        copies.chunk,
        copies.start,
        copies.start + OWN_HEADER_BYTES + length,
      );
    }
    this.#last = number;
    this.#written = number;
    this.#outstanding += length + OWN_OVERHEAD_BYTES;
    return true;
  }

  /** Writes what waits, as far as the path takes it. */
  pump(): void {
    if (!this.flowing) return;
    while (this.#written < this.#last) {
      if (!this.#hooks.writable(this.#path)) return;
      this.#written++;
      const frame = this.#kept.get(this.#written);
      this._stamp(frame);
      this.#hooks.write(this.#path, frame);
    }
    if (this._due) this.tell();
  }

  // ---- receiving -------------------------------------------------------------------------------------------

  /**
   * A numbered frame of `bytes` bytes has come, at `at` in `memory`, on whichever path. Answers whether it is the next one, to be delivered now.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`
   */
  accept(memory: Uint8Array, at = 0, bytes = memory.length): boolean {
    this.acknowledged(memory, at);
    return this._receive(memory, at, bytes);
  }

  /**
   * `accept` and `handled` in one, for the many: a frame with one message of `bytes` bytes, whose header is the four words from `at` on.
   * `false`: something about it is not as usual, and nothing was done.
   */
  handle(words: Int32Array, at: number, bytes: number): boolean {
    const next = this._received + 1;
    if (words[at] !== OWN_ONE_MESSAGE || words[at + 1] !== (next | 0)) return false;
    const acknowledged = ((words[at + 2] as number) - this.#acknowledged) | 0;
    const credited = ((words[at + 3] as number) - this.#credited) | 0;
    if (acknowledged < 0 || acknowledged > this.#last - this.#acknowledged) return false;
    if (credited < 0 || credited > this.#outstanding) return false;
    const untold = this._untoldConsumed;
    if (this._waiting + untold >= this._receiveWindowBytes) return false;

    this.#acknowledge(this.#acknowledged + acknowledged);
    this.#credit(credited);
    const charge = bytes + OWN_OVERHEAD_BYTES; // more than the frame has: so this becomes due before its bytes
    this._received = next;
    this._consumed = (this._consumed + charge) | 0;
    this._untoldConsumed = untold + charge;
    this._untold = true;
    if (untold + charge >= this._dueBytes) this._due = true;
    return true;
  }

  /** The application is given a message of so many bytes and done with it at once. The peer is told with the answer, or by `settle`. */
  handled(bytes: number): void {
    this._consume(bytes);
  }

  /** The application is done with a message of so many bytes: the peer may send as much again. */
  consumed(bytes: number): void {
    if (this._consume(bytes)) this.tell();
  }

  /** Tells what has become due to be told while a frame was handled, if no frame has taken it along. */
  settle(): void {
    if (this._due) this.tell();
  }

  /** Tells the peer what has come and what was consumed, if it does not know. */
  tell(): void {
    this._due = this.untold; // until it has left
    if (!this._due || !this.flowing || !this.#hooks.writable(this.#path)) return;
    const frame = new Uint8Array(HEADER_BYTES);
    frame[0] = FrameKind.ACK;
    this._stamp(frame);
    this.#hooks.write(this.#path, frame);
  }

  /**
   * Takes what a numbered frame or an ACK says of the other direction. Answers whether it was news.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`
   */
  acknowledged(memory: Uint8Array, at = 0): boolean {
    const received = expand(getUint32(memory, at + 8), this.#acknowledged);
    const credited = (getUint32(memory, at + 12) - this.#credited) | 0;
    // What comes late from an abandoned path says less than what is known, and that is no news.
    if (received <= this.#acknowledged && credited <= 0) return false;
    this.#checkReceived(received);
    if (credited > this.#outstanding) throw protocolError('it gave back more than it was sent');
    if (received > this.#acknowledged) this.#acknowledge(received);
    if (credited > 0) this.#credit(credited);
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
    else this.#stop(); // the resume begins an epoch
  }

  /** The base connection has ended. What is on a fast one goes on. */
  baseLost(): void {
    this.#baseUp = false;
    this.#leaveShortWriter();
  }

  /** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` where two sides that keep the protocol cannot be so far apart. */
  assertEpoch(epoch: number): void {
    if (epoch > this.#epoch + (this.#awaitsEpoch ? MAX_LOST_EPOCHS : MAX_EPOCHS_AHEAD))
      throw protocolError(`it speaks of epoch ${epoch}, and this side is at ${this.#epoch}`);
  }

  /**
   * The base connection is there again. One side, the one that accepts, begins the next epoch; it passes the other's,
   * which may be ahead of its own and was looked at with `assertEpoch`.
   */
  baseResumed(peerEpoch?: number): void {
    this.#baseUp = true;
    if (peerEpoch === undefined) {
      // The other side begins. What was lost with the old connection does not matter: it knows our epoch.
      this.#awaitsEpoch = true;
      this.#stop();
      return;
    }
    this.#epoch = Math.max(this.#epoch, peerEpoch);
    this.#begin(this.#path);
  }

  /** A SWITCH has come. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  switched(frame: Uint8Array): void {
    if (frame.length !== HEADER_BYTES + 4) throw protocolError('a SWITCH has another length');
    const epoch = getUint32(frame, 4);
    if (epoch < this.#epoch || epoch <= this.#heard) return;
    this.assertEpoch(epoch);
    const path = getUint32(frame, HEADER_BYTES);
    const received = expand(getUint32(frame, 8), this.#acknowledged);
    this.#checkReceived(received);
    this.acknowledged(frame);
    if (epoch > this.#epoch) {
      this.#epoch = epoch;
      this.#name(path);
    }
    this.#heard = epoch;
    this.#awaitsEpoch = false;
    this.#agreed = true;
    this.#leaveShortWriter();
    this.#path = path === this.#named ? path : BASE;
    // An acknowledgement on the fast path may have overtaken what was said here.
    this.#written = Math.max(received, this.#acknowledged);
    if (this.#path !== BASE && !this.#hooks.alive(this.#path)) {
      this.#begin(BASE);
      return;
    }
    this.#hooks.moved(this.#path);
    this.pump();
  }

  // ---- private ---------------------------------------------------------------------------------------------

  #keep(kind: number, memory: Uint8Array, messages: number, start: number, end: number): void {
    this.#leaveShortWriter(); // which overtakes nothing
    this.#last++;
    this.#put(this.#last, kind | (messages << 16), memory, start, end);
    if (messages > 0) this.#outstanding += chargeOf(kind, end - start, messages);
  }

  #acknowledge(number: number): void {
    if (this.#acknowledged < this.#keptThrough) this.#kept.releaseThrough(number);
    this.#acknowledged = number;
    if (number > this.#written) this.#written = number;
  }

  #credit(bytes: number): void {
    this.#credited = (this.#credited + bytes) | 0;
    this.#outstanding -= bytes;
  }

  #put(number: number, kind: number, memory: Uint8Array, start: number, end: number): void {
    this.#kept.push(number, kind, memory, start, end);
    this.#keptThrough = number;
  }

  /** The last frames do not stay where they left from. */
  readonly #takeBack = (sent: KeptSends): void => {
    const before = this.#last - sent.count;
    const first = Math.max(0, this.#acknowledged - before);
    let bytes = 0;
    for (let index = first; index < sent.count; index++) bytes += sent.at(index).length;
    if (bytes === 0) return;
    const copies = uninitialised(bytes);
    let start = 0;
    for (let index = first; index < sent.count; index++) {
      const frame = sent.at(index);
      const end = start + frame.length;
      copies.set(frame, start);
      this.#put(before + 1 + index, OWN_ONE_MESSAGE, copies, start, end);
      start = end;
    }
  };

  #begin(path: PathNumber): void {
    this.#epoch++;
    this.#name(path);
    this.#stop();
  }

  /** No data leaves until both have said SWITCH. */
  #stop(): void {
    this.#agreed = false;
    this.#leaveShortWriter();
  }

  #findShortWriter(): ShortWriter | undefined {
    if (!this.flowing || this.unwritten) return undefined;
    const writer = this.#hooks.shortWriter(this.#path);
    writer?.keepSent(this.#takeBack);
    this.#shortWriter = writer;
    return writer;
  }

  /** What may be sent again on another path must not lie where a device perhaps still reads it. */
  #leaveShortWriter(): void {
    this.#shortWriter?.giveBackSent();
    this.#shortWriter = undefined;
  }

  /** Says, once in an epoch, which path this side can use in it, and what it has received. */
  #name(path: PathNumber): void {
    this.#named = path === BASE || this.#hooks.alive(path) ? path : BASE;
    const frame = new Uint8Array(HEADER_BYTES + 4);
    frame[0] = FrameKind.SWITCH;
    putUint32(frame, 4, this.#epoch);
    this._stamp(frame);
    putUint32(frame, HEADER_BYTES, this.#named);
    this.#hooks.control(frame);
  }

  #checkReceived(received: number): void {
    if (received > this.#last)
      throw protocolError(`it acknowledged frame ${received}, and only ${this.#last} were sent`);
  }
}
