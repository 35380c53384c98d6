import { VerbmqError } from './errors.js';
import type { DescriptorFields, ResolvedMemoryAccess } from './memory.js';
import type { MessageOwner } from './message.js';
import type { MessageHead } from './message-head.js';
import { allEnded } from './operations.js';
import { allocateMemory } from './ordinary-memory.js';
import { OutgoingLease, type OutgoingLeaseOwner } from './outgoing-lease.js';
import type { OutgoingRoom } from './outgoing-room.js';
import type { TransferPiece } from './remote-memory.js';

/** Memory that a transport has made reachable for the peer. */
export interface ExposedByTransport {
  readonly data: Uint8Array;
  /** Where the memory starts in the peer's terms, and the key to it; both go into the descriptor. */
  readonly address: bigint;
  readonly key: Uint8Array;
  /** Ends the peer's access; once it has resolved no operation takes effect any more. */
  readonly revoke: () => Promise<void>;
}

/** @internal The length of a header of four words. */
export const WORDS_BYTES = 16;

/** @internal There was no room for a message, and nothing was done. */
export const NOT_TAKEN = 0;
/** @internal A message was taken, and nothing of it stays: who needs it again must copy it. */
export const NOT_KEPT = 1;
/** @internal A message was taken, and stays where it left from; see `Connection.keepSent`. */
export const KEPT = 2;

/**
 * What a transport implements of a connection. Arguments and state have been checked when a hook is called, and
 * no hook is called after the connection has failed, but for `releaseMessage` and `freeOutgoing`.
 */
export abstract class ConnectionHooks implements MessageOwner, OutgoingLeaseOwner {
  /** `tcp`, `rdma`, … */
  abstract readonly kind: string;

  /**
   * Takes one message, in order. `true`: taken, the bytes are no longer needed. `false`: no room (at or above the
   * high-water mark, or out of credits); nothing was done, and `_roomAvailable()` will be called when there is. A
   * promise, only where `mayBorrow`: taken in order, but the bytes are needed until it settles.
   * A `lease` is one of this connection's own; with `true` or a promise its memory is the transport's again.
   */
  protected abstract _submit(
    data: Uint8Array,
    lease: OutgoingLease | undefined,
    mayBorrow: boolean,
  ): boolean | Promise<void>;

  /**
   * As `_submit`, for a layer upon this connection that has a header of `headerBytes` bytes to put before `data`: the two are one
   * message. Transports in whose memory messages are copied anyway need not have them in one piece.
   */
  protected _submitBehind(head: MessageHead, headerBytes: number, data: Uint8Array): boolean {
    const message = new Uint8Array(headerBytes + data.length);
    message.set(head.bytes.subarray(0, headerBytes));
    message.set(data, headerBytes);
    return this._submit(message, undefined, false) !== false;
  }

  /**
   * The same for a header of four words, each of 32 bits and little-endian: given like this they need no memory of their own.
   * Answers {@link KEPT}, {@link NOT_KEPT} or {@link NOT_TAKEN}.
   */
  protected _submitBehindWords(a: number, b: number, c: number, d: number, data: Uint8Array): number {
    wordsView.setInt32(0, a, true);
    wordsView.setInt32(4, b, true);
    wordsView.setInt32(8, c, true);
    wordsView.setInt32(12, d, true);
    return this._submitBehind(wordsHead, WORDS_BYTES, data) ? NOT_KEPT : NOT_TAKEN;
  }

  /**
   * Room in the transport's outgoing memory for one short message, which is written there before anything else happens on this
   * thread but what its writing calls. `undefined`: none now, or none at all. It comes back by `_submitReserved` or `_unreserve`.
   */
  protected _reserve(): OutgoingRoom | undefined {
    return undefined;
  }

  /** As `_submit`, for the first `bytes` bytes of `room`. With `false` the room still has to be given back. */
  protected _submitReserved(_room: OutgoingRoom, _bytes: number): boolean {
    return false;
  }

  /** Nothing is sent from `room`; the connection may have failed meanwhile. */
  protected _unreserve(_room: OutgoingRoom): void {}

  /** `maxGreetingBytes` is over: messages may be as long as was agreed on. */
  protected _greeted(): void {}

  /** Bytes taken by `_submit` that have not left this process yet, as far as is known: to ask costs nothing but the look. */
  protected abstract _bufferedBytes(): number;

  /** Somebody waits for them to leave: when they have, `_roomAvailable()` is due. Transports that call it anyway do nothing here. */
  protected _awaitLeaving(): void {}

  /** Tells the peer, behind everything that was submitted, that nothing more will come. Called once. */
  protected abstract _sendClose(): void;

  /**
   * Both sides have said so: let what is buffered leave, give everything back, then call `_finished()`. Called once.
   */
  protected abstract _teardown(): void;

  /**
   * The connection is dead, whatever was called before: fail own pending operations with `error`, give everything
   * back, then call `_finished()`. With `reasonForPeer` the peer should be told, without waiting for it.
   */
  protected abstract _kill(error: VerbmqError, reasonForPeer: string | undefined): void;

  /** @see MessageOwner */
  abstract releaseMessage(token: number, bytes: number): void;
  /** @see MessageOwner */
  abstract retainMessage(token: number, data: Uint8Array): Uint8Array | undefined;

  /** Memory for an outgoing lease; by default ordinary memory of its own. */
  protected _allocate(bytes: number): OutgoingLease {
    return new OutgoingLease(allocateMemory(bytes), this, 0);
  }

  /** @see OutgoingLeaseOwner */
  freeOutgoing(_lease: OutgoingLease): void {}

  /** Called only where `capabilities.oneSided` is not `'none'`; so are those that follow. */
  protected _expose(
    _memory: number | Uint8Array,
    _access: ResolvedMemoryAccess,
  ): Promise<ExposedByTransport> {
    throw this._unsupported('exposing memory');
  }
  protected _read(_remote: DescriptorFields, _offset: number, _target: Uint8Array): Promise<void> {
    throw this._unsupported('reading remote memory');
  }
  protected _write(_remote: DescriptorFields, _offset: number, _data: Uint8Array): Promise<void> {
    throw this._unsupported('writing remote memory');
  }
  /** All of them, at once; by default as so many reads. It ends when all have. */
  protected _readv(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return allEnded(
      pieces.map(({ offset, view }) => this._read(remote, offset, view)),
      false,
    );
  }
  protected _writev(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return allEnded(
      pieces.map(({ offset, view }) => this._write(remote, offset, view)),
      true,
    );
  }
  protected _fetchAdd(_remote: DescriptorFields, _offset: number, _addend: bigint): Promise<bigint> {
    throw this._unsupported('fetchAdd');
  }
  protected _compareAndSwap(
    _remote: DescriptorFields,
    _offset: number,
    _expected: bigint,
    _desired: bigint,
  ): Promise<bigint> {
    throw this._unsupported('compareAndSwap');
  }

  protected _unsupported(what: string): VerbmqError {
    return new VerbmqError(
      'ERR_VERBMQ_UNSUPPORTED',
      `${what} is not supported on this ${this.kind} connection`,
    );
  }
}

/** Where a header of words becomes bytes. */
const wordsView = new DataView(new ArrayBuffer(WORDS_BYTES));
const wordsHead: MessageHead = {
  bytes: new Uint8Array(wordsView.buffer),
  words: new Int32Array(wordsView.buffer),
};
