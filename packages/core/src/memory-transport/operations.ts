import type { VerbmqError } from '../contract/errors.js';
import type { MemoryRegions } from '../transport-kit/memory-regions.js';
import type { Frame, MemoryRequest } from './frames.js';

interface Pending {
  readonly mutates: boolean;
  readonly resolve: (value: Uint8Array | bigint | undefined) => void;
  readonly reject: (error: VerbmqError) => void;
}

/** The one-sided operations of one end that wait for the owner's answer. */
export class Operations {
  readonly #send: (frame: Frame) => void;
  readonly #pending = new Map<number, Pending>();
  #next = 0;

  constructor(send: (frame: Frame) => void) {
    this.#send = send;
  }

  ask(key: Uint8Array, request: MemoryRequest): Promise<Uint8Array | bigint | undefined> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#pending.set(id, { mutates: request.operation !== 'read', resolve, reject });
      this.#send({ kind: 'request', id, key, request });
    });
  }

  answered(id: number, value: Uint8Array | bigint | undefined): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.resolve(value);
  }

  /** The connection is dead: whether a change was made nobody knows. */
  fail(error: VerbmqError): void {
    for (const { mutates, reject } of this.#pending.values()) {
      reject(mutates ? error.withUnknownOutcome() : error);
    }
    this.#pending.clear();
  }
}

/** What the owner does for a one-sided operation of the peer. */
export function perform(
  regions: MemoryRegions,
  key: Uint8Array,
  request: MemoryRequest,
): Uint8Array | bigint | undefined {
  switch (request.operation) {
    case 'read':
      return new Uint8Array(regions.read(key, request.offset, request.length));
    case 'write':
      regions.write(key, request.offset, request.data);
      return undefined;
    case 'fetchAdd':
      return regions.fetchAdd(key, request.offset, request.addend);
    case 'compareAndSwap':
      return regions.compareAndSwap(key, request.offset, request.expected, request.desired);
  }
}
