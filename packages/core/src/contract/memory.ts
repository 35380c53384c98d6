import { VerbmqError } from './errors.js';
import { checkInteger, describe } from './options.js';

/** What a peer may do with exposed memory. Nothing is allowed that is not named. */
export interface MemoryAccess {
  /** `read` and `readv`. Default false, as the others. */
  readonly read?: boolean;
  /** `write` and `writev`. */
  readonly write?: boolean;
  /** `fetchAdd` and `compareAndSwap`. */
  readonly atomic?: boolean;
}

/** What a peer may do, of each right whether it has it. */
export type ResolvedMemoryAccess = Required<MemoryAccess>;

/**
 * Names a piece of exposed memory for the peer of the same connection: an opaque string of at most a few hundred
 * characters of base64url, to be sent in a message. It is worthless on any other connection.
 */
export type MemoryDescriptor = string;

/** Local memory that the peer can reach. */
export interface ExposedMemory {
  /** The memory itself; both sides see each other's changes. It stays readable here after `revoke()`. */
  readonly data: Uint8Array;
  readonly byteLength: number;
  readonly access: ResolvedMemoryAccess;
  /** What the peer gives to `attach`. */
  readonly descriptor: MemoryDescriptor;
  /**
   * Ends the peer's access. When the promise resolves, no later operation of the peer takes effect; one that tries
   * closes the connection with `ERR_VERBMQ_REMOTE_ACCESS`. Calling it again does nothing.
   */
  revoke(): Promise<void>;
}

/** One of the places that `readv` reads: from `offset` on, so many bytes, or as many as fill the array. */
export interface ReadPiece {
  readonly offset: number;
  readonly target: number | Uint8Array;
}

/** One of the places that `writev` writes: `data`, from `offset` on. */
export interface WritePiece {
  readonly offset: number;
  readonly data: Uint8Array;
}

/** The most pieces that one `readv` or `writev` takes. */
export const MAX_VECTOR_PIECES = 1024;

/**
 * The peer's exposed memory, as seen from here. Offsets and lengths are in bytes. Every method rejects as `read` does: with a RangeError or
 * TypeError, `ERR_VERBMQ_REMOTE_ACCESS`, `ERR_VERBMQ_SEND_QUEUE_FULL` where too many are pending, or the error of the connection.
 */
export interface RemoteMemory {
  /** How long it is, in bytes, and what was granted. */
  readonly byteLength: number;
  readonly access: ResolvedMemoryAccess;
  /**
   * Reads from `offset`; `target` is a length, or the array to fill. Resolves with the bytes read (`target`
   * itself where one was given).
   * @throws (all as rejections) RangeError outside of the bounds; VerbmqError `ERR_VERBMQ_REMOTE_ACCESS` when reading
   *   was not granted; the connection's error when it ends before the answer.
   */
  read(offset: number, target: number | Uint8Array): Promise<Uint8Array>;
  /**
   * Writes `data` at `offset`. Resolves when the data is in the peer's memory; `data` must not change until then.
   * An error that carries `outcome: 'unknown'` leaves open whether it is.
   */
  write(offset: number, data: Uint8Array): Promise<void>;
  /**
   * Reads all of `pieces`, {@link MAX_VECTOR_PIECES} at most, as `read` does each: they are all checked before any is asked for, leave
   * together, and count as so many operations. Resolves, when all are there, with what `read` would for each. Rejects with the
   * first error, and only when every piece has ended, so that no target is touched any more.
   * Nothing orders the pieces of one call among themselves.
   */
  readv(pieces: readonly ReadPiece[]): Promise<Uint8Array[]>;
  /**
   * Writes all of `pieces`, likewise. An error that carries `outcome: 'unknown'` leaves open which of them are in the peer's
   * memory; any other says that none is.
   */
  writev(pieces: readonly WritePiece[]): Promise<void>;
  /**
   * Adds to the 64-bit integer at `offset` (a multiple of 8, in the host's byte order), modulo 2^64. Resolves with the value before, from 0
   * to 2^64 - 1. When the connection breaks first, `outcome: 'unknown'` leaves open whether it was done; it is never done twice.
   */
  fetchAdd(offset: number, addend: bigint): Promise<bigint>;
  /** Stores `desired` where the 64-bit integer at `offset` equals `expected`. Resolves with the value before, and rejects likewise. */
  compareAndSwap(offset: number, expected: bigint, desired: bigint): Promise<bigint>;
}

/** What stands in a descriptor: where, how long, what for, and the transport's key to it. */
export interface DescriptorFields {
  readonly address: bigint;
  readonly byteLength: number;
  readonly access: ResolvedMemoryAccess;
  /** The transport's own key: an rkey on RDMA, a random token elsewhere. */
  readonly key: Uint8Array;
}

const DESCRIPTOR_VERSION = 1;
const FIXED_BYTES = 18;
const MAX_KEY_BYTES = 64;

/** version u8, access bits u8, address u64, byteLength u64 (little-endian), then the key; as base64url. */
export function encodeDescriptor(fields: DescriptorFields): MemoryDescriptor {
  const bytes = Buffer.alloc(FIXED_BYTES + fields.key.byteLength);
  bytes[0] = DESCRIPTOR_VERSION;
  bytes[1] = (fields.access.read ? 1 : 0) | (fields.access.write ? 2 : 0) | (fields.access.atomic ? 4 : 0);
  bytes.writeBigUInt64LE(fields.address, 2);
  bytes.writeBigUInt64LE(BigInt(fields.byteLength), 10);
  bytes.set(fields.key, FIXED_BYTES);
  return bytes.toString('base64url');
}

/**
 * @throws TypeError when it is not a string; VerbmqError `ERR_VERBMQ_INVALID_DESCRIPTOR` when it is not a descriptor.
 */
export function decodeDescriptor(descriptor: MemoryDescriptor): DescriptorFields {
  if (typeof descriptor !== 'string')
    throw new TypeError(`a descriptor is a string, not ${describe(descriptor)}`);
  const bytes = Buffer.from(descriptor.slice(0, 512), 'base64url');
  const access = bytes[1] ?? 0;
  const byteLength = bytes.byteLength < FIXED_BYTES ? -1n : bytes.readBigUInt64LE(10);
  if (
    bytes[0] !== DESCRIPTOR_VERSION ||
    bytes.toString('base64url') !== descriptor ||
    bytes.byteLength > FIXED_BYTES + MAX_KEY_BYTES ||
    access > 7 ||
    byteLength < 0n ||
    byteLength > BigInt(Number.MAX_SAFE_INTEGER)
  ) {
    throw new VerbmqError(
      'ERR_VERBMQ_INVALID_DESCRIPTOR',
      'this is not a memory descriptor of this version: pass the string that expose() gave to the peer, unchanged',
    );
  }
  return {
    address: bytes.readBigUInt64LE(2),
    byteLength: Number(byteLength),
    access: { read: (access & 1) !== 0, write: (access & 2) !== 0, atomic: (access & 4) !== 0 },
    key: new Uint8Array(bytes.subarray(FIXED_BYTES)),
  };
}

/** @throws TypeError when the rights are not booleans, or none is granted. */
export function resolveMemoryAccess(access: MemoryAccess): ResolvedMemoryAccess {
  if (typeof access !== 'object' || access === null) {
    throw new TypeError('access must be an object such as {read: true}');
  }
  const { read = false, write = false, atomic = false } = access;
  if (typeof read !== 'boolean' || typeof write !== 'boolean' || typeof atomic !== 'boolean') {
    throw new TypeError('access.read, access.write and access.atomic must be booleans');
  }
  if (!read && !write && !atomic)
    throw new TypeError('access must grant at least one of read, write, atomic');
  return { read, write, atomic };
}

/**
 * The length in bytes of memory that is to be exposed.
 * @throws TypeError or RangeError when it cannot be.
 */
export function checkMemoryToExpose(memory: number | Uint8Array, access: ResolvedMemoryAccess): number {
  if (typeof memory === 'number') return checkInteger('bytes', memory, 1, Number.MAX_SAFE_INTEGER);
  if (!(memory instanceof Uint8Array)) {
    throw new TypeError(`memory must be a length in bytes or a Uint8Array, not ${describe(memory)}`);
  }
  const { buffer, byteOffset, byteLength } = memory;
  if (!(buffer instanceof ArrayBuffer) || (buffer as { resizable?: boolean }).resizable === true) {
    throw new TypeError('memory to be exposed must lie in an ArrayBuffer of fixed length');
  }
  if (byteLength === 0) throw new RangeError('memory to be exposed must have 1 byte or more');
  if (access.atomic && byteOffset % 8 !== 0) {
    throw new RangeError(
      `memory for atomics must start at a multiple of 8 in its buffer, not at ${byteOffset}`,
    );
  }
  return byteLength;
}

/** @throws RangeError when `length` bytes from `offset` do not lie within `byteLength`. */
export function checkBounds(offset: number, length: number, byteLength: number): void {
  checkInteger('offset', offset, 0, byteLength);
  if (length > byteLength - offset) {
    throw new RangeError(`${length} bytes from ${offset} on exceed the memory's ${byteLength} bytes`);
  }
}

/** @throws RangeError when there is no aligned 64-bit integer at `offset`. */
export function checkAtomicOffset(offset: number, byteLength: number): void {
  checkBounds(offset, 8, byteLength);
  if (offset % 8 !== 0) throw new RangeError(`atomics need an offset that is a multiple of 8, not ${offset}`);
}

/** The application's memory, of a one-sided operation that was not done yet, is not there any more. */
export function memoryGone(): TypeError {
  return new TypeError('the memory of a one-sided operation was transferred before the operation was done');
}

/** The application's memory, of a message that has not left yet, is not there any more. */
export function messageGone(): TypeError {
  return new TypeError('the memory of a message was transferred or resized before the message had left');
}

/** @throws TypeError when it is not a bigint, RangeError when it does not fit 64 bits (signed or unsigned). */
export function checkUint64(name: string, value: unknown): bigint {
  if (typeof value !== 'bigint') throw new TypeError(`${name} must be a bigint, not ${describe(value)}`);
  if (value < -(2n ** 63n) || value >= 2n ** 64n) throw new RangeError(`${name} must fit 64 bits`);
  return BigInt.asUintN(64, value);
}
