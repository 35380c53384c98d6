import { VerbmqError } from './errors.js';
import {
  checkAtomicOffset,
  checkBounds,
  checkUint64,
  type DescriptorFields,
  MAX_VECTOR_PIECES,
  type ReadPiece,
  type RemoteMemory,
  type ResolvedMemoryAccess,
  type WritePiece,
} from './memory.js';
import { checkInteger, describe } from './options.js';

/** A place in remote memory, with the bytes of this side that meet it. */
export interface TransferPiece {
  readonly offset: number;
  /** What is filled, or written from. */
  readonly view: Uint8Array;
}

/** What remote memory needs of its connection. */
export interface RemoteMemoryHooks {
  remoteRead(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void>;
  remoteWrite(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void>;
  remoteReadv(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void>;
  remoteWritev(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void>;
  remoteFetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint>;
  remoteCompareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint>;
}

/** The peer's memory on a connection. Everything is checked against the descriptor before anything is sent. */
export class AttachedMemory implements RemoteMemory {
  readonly byteLength: number;
  readonly access: ResolvedMemoryAccess;
  readonly #connection: RemoteMemoryHooks;
  readonly #fields: DescriptorFields;

  constructor(connection: RemoteMemoryHooks, fields: DescriptorFields) {
    this.byteLength = fields.byteLength;
    this.access = fields.access;
    this.#connection = connection;
    this.#fields = fields;
  }

  async read(offset: number, target: number | Uint8Array): Promise<Uint8Array> {
    this.#checkRead(offset, target);
    this.#assertAccess('read');
    const into = arrayOf(target);
    await this.#connection.remoteRead(this.#fields, offset, into);
    return into;
  }

  async write(offset: number, data: Uint8Array): Promise<void> {
    this.#checkWrite(offset, data);
    this.#assertAccess('write');
    await this.#connection.remoteWrite(this.#fields, offset, data);
  }

  async readv(pieces: readonly ReadPiece[]): Promise<Uint8Array[]> {
    checkPieces(pieces);
    const asked = pieces.map(({ offset, target }) => {
      this.#checkRead(offset, target);
      return { offset, target };
    });
    this.#assertAccess('read');
    const places = asked.map(({ offset, target }) => ({ offset, view: arrayOf(target) }));
    await this.#connection.remoteReadv(this.#fields, places);
    return places.map(({ view }) => view);
  }

  async writev(pieces: readonly WritePiece[]): Promise<void> {
    checkPieces(pieces);
    const places = pieces.map(({ offset, data }) => {
      this.#checkWrite(offset, data);
      return { offset, view: data };
    });
    this.#assertAccess('write');
    await this.#connection.remoteWritev(this.#fields, places);
  }

  async fetchAdd(offset: number, addend: bigint): Promise<bigint> {
    const value = checkUint64('addend', addend);
    checkAtomicOffset(offset, this.byteLength);
    this.#assertAccess('atomic');
    return this.#connection.remoteFetchAdd(this.#fields, offset, value);
  }

  async compareAndSwap(offset: number, expected: bigint, desired: bigint): Promise<bigint> {
    const before = checkUint64('expected', expected);
    const after = checkUint64('desired', desired);
    checkAtomicOffset(offset, this.byteLength);
    this.#assertAccess('atomic');
    return this.#connection.remoteCompareAndSwap(this.#fields, offset, before, after);
  }

  #checkRead(offset: number, target: number | Uint8Array): void {
    if (typeof target === 'number') {
      checkInteger('length', target, 0, this.byteLength);
    } else if (!(target instanceof Uint8Array)) {
      throw new TypeError(`target must be a length or a Uint8Array, not ${describe(target)}`);
    }
    checkBounds(offset, typeof target === 'number' ? target : target.byteLength, this.byteLength);
  }

  #checkWrite(offset: number, data: Uint8Array): void {
    if (!(data instanceof Uint8Array))
      throw new TypeError(`data must be a Uint8Array, not ${describe(data)}`);
    checkBounds(offset, data.byteLength, this.byteLength);
  }

  #assertAccess(right: keyof ResolvedMemoryAccess): void {
    if (this.access[right]) return;
    throw new VerbmqError(
      'ERR_VERBMQ_REMOTE_ACCESS',
      `the owner did not grant ${right} on this memory: expose it with {${right}: true}`,
    );
  }
}

/** @throws TypeError when it is no array of objects, RangeError when it is too long. */
function checkPieces(pieces: readonly unknown[]): void {
  if (!Array.isArray(pieces)) throw new TypeError(`pieces must be an array, not ${describe(pieces)}`);
  if (pieces.length > MAX_VECTOR_PIECES)
    throw new RangeError(
      `${pieces.length} pieces in one call exceed the ${MAX_VECTOR_PIECES} that are allowed`,
    );
  for (const piece of pieces) {
    if (typeof piece !== 'object' || piece === null)
      throw new TypeError(`a piece is an object such as {offset: 0, …}, not ${describe(piece)}`);
  }
}

function arrayOf(target: number | Uint8Array): Uint8Array {
  return typeof target === 'number' ? new Uint8Array(target) : target;
}
