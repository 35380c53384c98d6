import { VerbmqError } from '@verbmq/core';
import { SubmissionKind } from './binding.js';
import type { OneSidedOperations, Operation } from './one-sided-operations.js';
import { PROOF_VALUE, type ProofWord } from './proof-word.js';

/**
 * Native atomic operations, with their results in the host's byte order. Some devices give them in big-endian order on every host
 * (ofiwg/libfabric#10911), and verbs have no way to ask. So before the first operation of a connection one is tried, on memory
 * of the owner's whose value is known: it adds nothing.
 */
export class AtomicOrder {
  readonly #word: ProofWord;
  readonly #operations: OneSidedOperations;
  #proof: Promise<void> | undefined;
  #proved = false;
  #swapped = false;

  constructor(word: ProofWord, operations: OneSidedOperations) {
    this.#word = word;
    this.#operations = operations;
  }

  /** Resolves with the value before. */
  async run(operation: Operation): Promise<bigint> {
    if (!this.#proved) {
      this.#proof ??= this.#prove().catch((error: unknown) => {
        this.#proof = undefined; // the peer may have memory for it when the next one asks
        throw error;
      });
      await this.#proof;
    }
    const before = await this.#operations.run(operation);
    return this.#swapped ? swap(before) : before;
  }

  async #prove(): Promise<void> {
    const place = await this.#word.place();
    const kind = SubmissionKind.fetchAdd;
    const result = await this.#operations.run({ ...place, kind, view: undefined, operand: 0n });
    if (result !== PROOF_VALUE && result !== swap(PROOF_VALUE)) {
      throw new VerbmqError(
        'ERR_VERBMQ_DEVICE',
        `an atomic operation of the device answered 0x${result.toString(16)} where 0x${PROOF_VALUE.toString(16)} stands: use another device, or its firmware of another version`,
      );
    }
    this.#swapped = result !== PROOF_VALUE;
    this.#proved = true;
  }
}

function swap(value: bigint): bigint {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes.readBigUInt64BE();
}
