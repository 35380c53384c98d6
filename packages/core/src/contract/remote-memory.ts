import { VerbmqError } from './errors.js';
import {
  checkAtomicOffset,
  checkBounds,
  checkUint64,
  type DescriptorFields,
  type RemoteMemory,
  type ResolvedMemoryAccess,
} from './memory.js';
import { checkInteger, describe } from './options.js';

/** What remote memory needs of its connection. */
export interface RemoteMemoryHooks {
  remoteRead(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void>;
  remoteWrite(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void>;
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
    if (typeof target === 'number') {
      checkInteger('length', target, 0, this.byteLength);
    } else if (!(target instanceof Uint8Array)) {
      throw new TypeError(`target must be a length or a Uint8Array, not ${describe(target)}`);
    }
    checkBounds(offset, typeof target === 'number' ? target : target.byteLength, this.byteLength);
    this.#assertAccess('read');
    const into = typeof target === 'number' ? new Uint8Array(target) : target;
    await this.#connection.remoteRead(this.#fields, offset, into);
    return into;
  }

  async write(offset: number, data: Uint8Array): Promise<void> {
    if (!(data instanceof Uint8Array))
      throw new TypeError(`data must be a Uint8Array, not ${describe(data)}`);
    checkBounds(offset, data.byteLength, this.byteLength);
    this.#assertAccess('write');
    await this.#connection.remoteWrite(this.#fields, offset, data);
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

  #assertAccess(right: keyof ResolvedMemoryAccess): void {
    if (this.access[right]) return;
    throw new VerbmqError(
      'ERR_VERBMQ_REMOTE_ACCESS',
      `the owner did not grant ${right} on this memory: expose it with {${right}: true}`,
    );
  }
}
