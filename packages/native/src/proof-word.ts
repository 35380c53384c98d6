import { VerbmqError } from '@verbmq/core';
import { type MemoryNotes, NoteKind, noteOf } from './memory-notes.js';

/** Reads differently in either order of its bytes. */
export const PROOF_VALUE = 0x0102_0304_0506_0708n;

export interface PlaceOfWord {
  readonly remoteAddress: bigint;
  readonly rkey: number;
}

/** A word in the peer's memory that is there to try things on: it may be read, and changed atomically where that is native. */
export class ProofWord {
  readonly #notes: MemoryNotes;
  #asked: Promise<PlaceOfWord> | undefined;

  constructor(notes: MemoryNotes) {
    this.#notes = notes;
  }

  /** Asks the peer for it the first time. */
  place(): Promise<PlaceOfWord> {
    this.#asked ??= this.#ask();
    return this.#asked;
  }

  async #ask(): Promise<PlaceOfWord> {
    const remoteAddress = await this.#notes.ask(noteOf(NoteKind.proofAddress, { first: PROOF_VALUE }));
    if (remoteAddress === 0n) {
      this.#asked = undefined;
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        'the peer can register no memory to confirm this operation with: let it close connections, or raise its `ulimit -l`',
      );
    }
    const rkey = Number(await this.#notes.ask(noteOf(NoteKind.proofKey)));
    return { remoteAddress, rkey };
  }
}
