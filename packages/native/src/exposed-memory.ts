import { VerbmqError } from '@verbmq/core';
import type { ExposedByTransport, ResolvedMemoryAccess } from '@verbmq/core/transport-kit';
import { type Handle, type MemoryRegistration, MemoryUse } from './binding.js';
import { signKey } from './descriptor-key.js';
import { type MemoryNote, NoteKind } from './memory-notes.js';
import type { RdmaEngine } from './rdma-engine.js';
import { allocatePages } from './whole-pages.js';

/** A number names an exposure: its place, and how often that had been used before. */
const PLACE_BITS = 12;
const MOST_EXPOSURES = 1 << PLACE_BITS;
const MOST_GENERATIONS = 2 ** (32 - PLACE_BITS);
/** Lengths in work requests are 32 bits. */
const MOST_BYTES = 2 ** 32 - 1;

interface Exposure {
  readonly number: number;
  /** The device's registration; none where the device has nothing to do with the memory. */
  readonly region: number | undefined;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly atomic: boolean;
}

export interface ExposedMemoriesInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  /** Signs the descriptors. */
  readonly secret: Uint8Array;
  /** Whether the devices do atomic operations; else this side's code does. */
  readonly nativeAtomics: boolean;
  /** Whether memory of the application's own may be registered. */
  readonly mayBorrow: boolean;
  /** Tells the peer; resolves when it knows, or the connection has ended. */
  readonly tellRevoked: (number: number) => Promise<void>;
}

/**
 * The memory that this side exposes on one connection. Each piece is registered by itself, with the rights that were granted
 * and no others, in the connection's own protection domain.
 */
export class ExposedMemories {
  readonly #init: ExposedMemoriesInit;
  readonly #exposures = new Map<number, Exposure>();
  /** Places to be used again, and the generation of each. */
  readonly #freePlaces: number[] = [];
  readonly #generations: number[] = [];
  #bytes = 0;
  #proof: MemoryRegistration | undefined;

  constructor(init: ExposedMemoriesInit) {
    this.#init = init;
  }

  /** Bytes that are registered. */
  get registeredBytes(): number {
    return this.#bytes;
  }

  /** @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS`, `ERR_VERBMQ_MEMLOCK` or `ERR_VERBMQ_UNSUPPORTED` */
  expose(memory: number | Uint8Array, access: ResolvedMemoryAccess): ExposedByTransport {
    const { secret, tellRevoked } = this.#init;
    const number = this.#takeNumber();
    try {
      const data = typeof memory === 'number' ? this.#allocate(memory) : this.#own(memory);
      const { byteLength } = data;
      const registered = this.#register(data, access);
      const address = registered?.address ?? 0n;
      const exposure: Exposure = { number, region: registered?.region, data, atomic: access.atomic };
      this.#exposures.set(number, exposure);
      return {
        data,
        address,
        key: signKey(secret, { address, byteLength, access }, { rkey: registered?.rkey ?? 0, number }),
        revoke: async () => {
          if (this.#exposures.get(number) !== exposure) return;
          // Access has ended when this returns, whatever the peer does; that it is told spares both an abrupt end.
          this.#end(exposure);
          await tellRevoked(number);
          this.#freePlaces.push(placeOfExposure(number));
        },
      };
    } catch (error) {
      this.#freePlaces.push(placeOfExposure(number));
      throw error;
    }
  }

  /**
   * Does for the peer what devices without atomic operations cannot. Answers with the value before.
   * @throws VerbmqError `ERR_VERBMQ_REMOTE_ACCESS`
   */
  atomic({ kind, number, offset, first, second }: MemoryNote): bigint {
    const exposure = this.#exposures.get(number);
    if (exposure === undefined) throw refused('it was revoked, or never exposed');
    if (!exposure.atomic) throw refused('atomic was not granted');
    const { data } = exposure;
    if (offset % 8n !== 0n || offset + 8n > BigInt(data.byteLength)) {
      throw refused(`there is no aligned 64-bit integer at ${offset}`);
    }
    const word = new BigUint64Array(data.buffer, data.byteOffset + Number(offset), 1);
    const before = word[0] as bigint;
    if (kind === NoteKind.fetchAdd) word[0] = before + first;
    else if (before === first) word[0] = second;
    return before;
  }

  /** Memory for the peer to try operations on, holding `value`. It is made once, when the peer asks; nothing when it cannot be. */
  proof(value?: bigint): MemoryRegistration | undefined {
    if (this.#proof !== undefined || value === undefined) return this.#proof;
    try {
      const data = this.#allocate(8);
      new BigUint64Array(data.buffer, data.byteOffset, 1)[0] = value;
      this.#proof = this.#register(data, { read: true, write: false, atomic: true });
    } catch (error) {
      // The peer is told, and its operation fails; this side's program has asked for nothing.
      if (!(error instanceof VerbmqError)) throw error;
    }
    return this.#proof;
  }

  /** The connection has ended, and every registration with it. The memory stays the application's. */
  end(): void {
    this.#exposures.clear();
    this.#bytes = 0;
  }

  #register(
    { buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>,
    access: ResolvedMemoryAccess,
  ): MemoryRegistration | undefined {
    const { engine, handle, nativeAtomics } = this.#init;
    const uses =
      (access.read ? MemoryUse.remoteRead : 0) |
      (access.write ? MemoryUse.remoteWrite : 0) |
      (access.atomic && nativeAtomics ? MemoryUse.remoteAtomic : 0);
    if (uses === 0) return undefined;
    const registered = engine.registerMemory(handle, buffer, byteOffset, byteLength, uses);
    this.#bytes += byteLength;
    return registered;
  }

  #end({ number, region, data }: Exposure): void {
    this.#exposures.delete(number);
    if (region === undefined) return;
    this.#init.engine.deregisterMemory(this.#init.handle, region);
    this.#bytes -= data.byteLength;
  }

  #allocate(bytes: number): Uint8Array<ArrayBuffer> {
    assertRegistrable(bytes);
    const { memory, start } = allocatePages(this.#init.engine.addon, bytes);
    return new Uint8Array(memory, start, bytes);
  }

  #own(memory: Uint8Array): Uint8Array<ArrayBuffer> {
    assertRegistrable(memory.byteLength);
    if (!this.#init.mayBorrow) {
      throw new VerbmqError(
        'ERR_VERBMQ_UNSUPPORTED',
        'on kernels before 5.12 memory of the application cannot be registered without harm to child processes: give expose() a length, and use the memory that it allocates',
      );
    }
    return memory as Uint8Array<ArrayBuffer>;
  }

  #takeNumber(): number {
    const place = this.#freePlaces.pop() ?? this.#generations.length;
    if (place >= MOST_EXPOSURES) {
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        `this connection exposes ${MOST_EXPOSURES} pieces of memory already: revoke some, or expose larger ones`,
      );
    }
    const generation = (this.#generations[place] ?? 0) + 1;
    if (generation === MOST_GENERATIONS) return this.#takeNumber(); // this place is used up
    this.#generations[place] = generation;
    return place + generation * MOST_EXPOSURES;
  }
}

/** The place in the number of an exposure, which a later one may have again. */
export function placeOfExposure(number: number): number {
  return number % MOST_EXPOSURES;
}

function assertRegistrable(bytes: number): void {
  if (bytes <= MOST_BYTES) return;
  throw new VerbmqError(
    'ERR_VERBMQ_NO_BUFFERS',
    `a device registers at most ${MOST_BYTES} bytes at once: expose ${bytes} bytes in several pieces`,
  );
}

function refused(why: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_REMOTE_ACCESS', `an access to exposed memory was refused: ${why}`);
}
