import { VerbmqError } from '@verbmq/core';
import { SubmissionKind } from './binding.js';
import { type MemoryNotes, NoteKind, noteOf } from './memory-notes.js';
import type { OneSidedOperations, Operation } from './one-sided-operations.js';

/** Reads differently in either order of its bytes. */
const KNOWN = 0x0102_0304_0506_0708n;

/**
 * Native atomic operations, with their results in the host's byte order. Some devices give them in big-endian order on every host
 * (ofiwg/libfabric#10911), and verbs have no way to ask. So before the first operation of a connection one is tried, on memory
 * of the owner's whose value is known: it adds nothing.
 */
export class AtomicOrder {
  readonly #notes: MemoryNotes;
  readonly #operations: OneSidedOperations;
  #proof: Promise<void> | undefined;
  #proved = false;
  #swapped = false;

  constructor(notes: MemoryNotes, operations: OneSidedOperations) {
    this.#notes = notes;
    this.#operations = operations;
  }

  /** Resolves with the value before. */
  async run(operation: Operation): Promise<bigint> {
    if (!this.#proved) {
      this.#proof ??= this.#prove();
      await this.#proof;
    }
    const before = await this.#operations.run(operation);
    return this.#swapped ? swap(before) : before;
  }

  async #prove(): Promise<void> {
    const remoteAddress = await this.#notes.ask(noteOf(NoteKind.proofAddress, { first: KNOWN }));
    const rkey = Number(await this.#notes.ask(noteOf(NoteKind.proofKey)));
    const kind = SubmissionKind.fetchAdd;
    const result = await this.#operations.run({ kind, remoteAddress, rkey, view: undefined, operand: 0n });
    if (result !== KNOWN && result !== swap(KNOWN)) {
      throw new VerbmqError(
        'ERR_VERBMQ_DEVICE',
        `an atomic operation of the device answered 0x${result.toString(16)} where 0x${KNOWN.toString(16)} stands: use another device, or its firmware of another version`,
      );
    }
    this.#swapped = result !== KNOWN;
    this.#proved = true;
  }
}

function swap(value: bigint): bigint {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes.readBigUInt64BE();
}
