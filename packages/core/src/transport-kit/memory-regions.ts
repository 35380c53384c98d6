import { randomFillSync } from 'node:crypto';
import type { ExposedByTransport } from '../contract/connection-hooks.js';
import { VerbmqError } from '../contract/errors.js';
import type { ResolvedMemoryAccess } from '../contract/memory.js';

interface Region {
  readonly data: Uint8Array;
  readonly view: DataView;
  readonly access: ResolvedMemoryAccess;
}

/** The length in bytes of the random key of a region. */
const KEY_BYTES = 16;

/** The most bytes that one connection may expose on an emulating transport: 4 GiB. */
const MAX_EXPOSED_BYTES = 4 * 1024 ** 3;

/**
 * The exposed memory of one connection where one-sided operations are emulated: a message asks, and the owner's code
 * does what an RDMA device would do, with the same checks. A key that is unknown, a right that was not granted, or a
 * range out of bounds is `ERR_VERBMQ_REMOTE_ACCESS`, which ends the connection as it does on RDMA.
 */
export class MemoryRegions {
  readonly #regions = new Map<string, Region>();
  #bytes = 0;

  /** @param memory how many bytes, or memory of the application's own */
  expose(memory: number | Uint8Array, access: ResolvedMemoryAccess): ExposedByTransport {
    const bytes = typeof memory === 'number' ? memory : memory.byteLength;
    if (this.#bytes + bytes > MAX_EXPOSED_BYTES) {
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        `this connection exposes ${this.#bytes} bytes already; ${bytes} more exceed its ${MAX_EXPOSED_BYTES}`,
      );
    }
    const key = randomFillSync(new Uint8Array(KEY_BYTES));
    const data = typeof memory === 'number' ? allocateZeroed(memory) : memory;
    const name = nameOf(key);
    this.#regions.set(name, { data, view: new DataView(data.buffer, data.byteOffset, bytes), access });
    this.#bytes += bytes;
    return {
      data,
      address: 0n,
      key,
      revoke: async () => {
        if (this.#regions.delete(name)) this.#bytes -= bytes;
      },
    };
  }

  /** The bytes that a peer's read asks for: a view, not a copy. */
  read(key: Uint8Array, offset: number, length: number): Uint8Array {
    return this.#find(key, 'read', offset, length).data.subarray(offset, offset + length);
  }

  write(key: Uint8Array, offset: number, data: Uint8Array): void {
    this.#find(key, 'write', offset, data.byteLength).data.set(data, offset);
  }

  /** Answers the value before, as an unsigned 64-bit integer; so does `compareAndSwap`. */
  fetchAdd(key: Uint8Array, offset: number, addend: bigint): bigint {
    const { view } = this.#find(key, 'atomic', offset, 8);
    const before = view.getBigUint64(offset, LITTLE_ENDIAN);
    view.setBigUint64(offset, BigInt.asUintN(64, before + addend), LITTLE_ENDIAN);
    return before;
  }

  compareAndSwap(key: Uint8Array, offset: number, expected: bigint, desired: bigint): bigint {
    const { view } = this.#find(key, 'atomic', offset, 8);
    const before = view.getBigUint64(offset, LITTLE_ENDIAN);
    if (before === expected) view.setBigUint64(offset, desired, LITTLE_ENDIAN);
    return before;
  }

  /** The connection has ended, and the access with it. */
  clear(): void {
    this.#regions.clear();
    this.#bytes = 0;
  }

  #find(key: Uint8Array, right: keyof ResolvedMemoryAccess, offset: number, length: number): Region {
    const region = key.byteLength === KEY_BYTES ? this.#regions.get(nameOf(key)) : undefined;
    if (region === undefined) throw refused('its key is unknown or was revoked');
    if (!region.access[right]) throw refused(`${right} was not granted`);
    const inBounds =
      Number.isSafeInteger(offset) && offset >= 0 && length >= 0 && length <= region.data.byteLength - offset;
    if (!inBounds)
      throw refused(`${length} bytes from ${offset} on exceed its ${region.data.byteLength} bytes`);
    if (right === 'atomic' && offset % 8 !== 0) throw refused(`${offset} is not a multiple of 8`);
    return region;
  }
}

const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function nameOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}

function allocateZeroed(bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new VerbmqError('ERR_VERBMQ_NO_BUFFERS', `${bytes} bytes of memory cannot be had`, { cause });
  }
}

function refused(why: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_REMOTE_ACCESS', `an access to exposed memory was refused: ${why}`);
}
