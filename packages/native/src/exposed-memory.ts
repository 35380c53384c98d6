import { markAsUntransferable } from 'node:worker_threads';
import { VerbmqError } from '@verbmq/core';
import type { ExposedByTransport, ResolvedMemoryAccess } from '@verbmq/core/transport-kit';
import { type Handle, MemoryUse } from './binding.js';
import { signKey } from './descriptor-key.js';
import { type MemoryNote, NoteKind } from './memory-notes.js';
import type { RdmaEngine } from './rdma-engine.js';

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
  readonly words: BigUint64Array;
  readonly atomic: boolean;
}

export interface ExposedMemoriesInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  /** Signs the descriptors. */
  readonly secret: Uint8Array;
  /** Whether the devices do atomic operations; else this side's code does. */
  readonly nativeAtomics: boolean;
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

  constructor(init: ExposedMemoriesInit) {
    this.#init = init;
  }

  /** Bytes that are registered. */
  get registeredBytes(): number {
    return this.#bytes;
  }

  /** @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` or `ERR_VERBMQ_MEMLOCK` */
  expose(bytes: number, access: ResolvedMemoryAccess): ExposedByTransport {
    const { engine, handle, secret, nativeAtomics, tellRevoked } = this.#init;
    const number = this.#takeNumber();
    try {
      const { pageBytes } = engine.addon.layout;
      const memory = allocate(bytes, pageBytes);
      const start = engine.addon.offsetOfPage(memory);
      const uses =
        (access.read ? MemoryUse.remoteRead : 0) |
        (access.write ? MemoryUse.remoteWrite : 0) |
        (access.atomic && nativeAtomics ? MemoryUse.remoteAtomic : 0);
      const registered = uses === 0 ? undefined : engine.registerMemory(handle, memory, start, bytes, uses);
      const address = registered?.address ?? 0n;
      const exposure: Exposure = {
        number,
        region: registered?.region,
        words: new BigUint64Array(memory, start, Math.floor(bytes / 8)),
        atomic: access.atomic,
      };
      this.#exposures.set(number, exposure);
      if (registered !== undefined) this.#bytes += bytes;
      return {
        data: new Uint8Array(memory, start, bytes),
        address,
        key: signKey(secret, { address, byteLength: bytes, access }, { rkey: registered?.rkey ?? 0, number }),
        revoke: async () => {
          if (this.#exposures.get(number) !== exposure) return;
          // Access has ended when this returns, whatever the peer does; that it is told spares both an abrupt end.
          this.#end(exposure, bytes);
          await tellRevoked(number);
          this.#freePlaces.push(placeOf(number));
        },
      };
    } catch (error) {
      this.#freePlaces.push(placeOf(number));
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
    const word = Number(offset / 8n);
    const before = offset % 8n === 0n ? exposure.words[word] : undefined;
    if (before === undefined) throw refused(`there is no aligned 64-bit integer at ${offset}`);
    if (kind === NoteKind.fetchAdd) exposure.words[word] = before + first;
    else if (before === first) exposure.words[word] = second;
    return before;
  }

  /** The connection has ended, and every registration with it. The memory stays the application's. */
  end(): void {
    this.#exposures.clear();
    this.#bytes = 0;
  }

  #end(exposure: Exposure, bytes: number): void {
    this.#exposures.delete(exposure.number);
    if (exposure.region === undefined) return;
    this.#init.engine.deregisterMemory(this.#init.handle, exposure.region);
    this.#bytes -= bytes;
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

export function placeOf(number: number): number {
  return number % MOST_EXPOSURES;
}

/** Whole pages, shared with nothing else: the device works on them. */
function allocate(bytes: number, pageBytes: number): ArrayBuffer {
  if (bytes > MOST_BYTES) {
    throw new VerbmqError(
      'ERR_VERBMQ_NO_BUFFERS',
      `a device registers at most ${MOST_BYTES} bytes at once: expose ${bytes} bytes in several pieces`,
    );
  }
  let memory: ArrayBuffer;
  try {
    memory = new ArrayBuffer(Math.ceil(bytes / pageBytes) * pageBytes + pageBytes);
  } catch (cause) {
    throw new VerbmqError('ERR_VERBMQ_NO_BUFFERS', `${bytes} bytes of memory cannot be had`, { cause });
  }
  markAsUntransferable(memory);
  return memory;
}

function refused(why: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_REMOTE_ACCESS', `an access to exposed memory was refused: ${why}`);
}
