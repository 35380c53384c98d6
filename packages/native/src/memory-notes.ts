import { VerbmqError } from '@verbmq/core';
import { Fifo } from '@verbmq/core/transport-kit';
import type { Handle } from './binding.js';
import type { RdmaEngine } from './rdma-engine.js';

/** What one side tells, or asks of, the other about exposed memory. */
export interface MemoryNote {
  readonly kind: (typeof NoteKind)[keyof typeof NoteKind];
  /** The exposure that it is about. */
  readonly number: number;
  /** From its start, in bytes, and the operands: of atomic operations. */
  readonly offset: bigint;
  readonly first: bigint;
  readonly second: bigint;
}

export const NoteKind = {
  /** The owner has ended the access. */
  revoked: 1,
  /** The owner is asked to add `first`, and to answer with the value before. */
  fetchAdd: 2,
  /** The owner is asked to store `second` where it finds `first`, and to answer with the value before. */
  compareAndSwap: 3,
  /** The owner is asked for memory that holds `first`, to try an atomic operation on, and to answer with its address. */
  proofAddress: 4,
  /** The owner is asked for the device's key to that. */
  proofKey: 5,
} as const;

const KINDS: ReadonlySet<number> = new Set(Object.values(NoteKind));

/** A note; what it has no use for is 0. */
export function noteOf(
  kind: MemoryNote['kind'],
  { number = 0, offset = 0, first = 0n, second = 0n } = {},
): MemoryNote {
  return { kind, number, offset: BigInt(offset), first, second };
}

/** kind u32, number u32, offset u64, first u64, second u64, little-endian; the answer to each is a u64. */
export const NOTE_BYTES = 32;
const ANSWER_BYTES = 8;

interface Asked {
  readonly note: MemoryNote;
  readonly resolve: (value: bigint) => void;
  readonly reject: (error: VerbmqError) => void;
}

/**
 * Notes about exposed memory between the two ends of a connection. They pass messages that wait. A frame carries as many notes
 * as fit, and is answered before the next one leaves, so nothing piles up on the other side.
 */
export class MemoryNotes {
  readonly #engine: RdmaEngine;
  readonly #handle: Handle;
  readonly #notesPerFrame: number;
  readonly #waiting = new Fifo<Asked>();
  #asked: Asked[] = [];

  /** @param frameBytes the most that the peer takes in one frame, without its header. */
  constructor(engine: RdmaEngine, handle: Handle, frameBytes: number) {
    this.#engine = engine;
    this.#handle = handle;
    this.#notesPerFrame = Math.floor(Math.min(engine.addon.layout.noteBytes, frameBytes) / NOTE_BYTES);
  }

  /** Resolves with the other side's answer. */
  ask(note: MemoryNote): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ note, resolve, reject });
      this.#send();
    });
  }

  /** A frame of answers has arrived. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` when they are not those to what was asked. */
  answerArrived(): void {
    const taken = this.#engine.native.takeAnswer(this.#handle);
    if (taken === undefined) return;
    const answers = Buffer.from(taken);
    if (answers.byteLength !== this.#asked.length * ANSWER_BYTES) {
      throw malformed('an answer about exposed memory has the wrong length');
    }
    for (const [n, { resolve }] of this.#asked.splice(0).entries()) {
      resolve(answers.readBigUInt64LE(n * ANSWER_BYTES));
    }
    this.#send();
  }

  /**
   * A frame of notes has arrived: each is given to `answer`, and all are answered.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`, and what `answer` throws.
   */
  notesArrived(answer: (note: MemoryNote) => bigint): void {
    const taken = this.#engine.native.takeNote(this.#handle);
    if (taken === undefined) return;
    const notes = Buffer.from(taken);
    if (notes.byteLength === 0 || notes.byteLength % NOTE_BYTES !== 0) {
      throw malformed('a note about exposed memory has the wrong length');
    }
    const answers = Buffer.alloc((notes.byteLength / NOTE_BYTES) * ANSWER_BYTES);
    for (let at = 0, n = 0; at < notes.byteLength; at += NOTE_BYTES, n++) {
      answers.writeBigUInt64LE(answer(decode(notes, at)), n * ANSWER_BYTES);
    }
    this.#engine.native.sendAnswer(this.#handle, answers);
  }

  /** The connection is dead. Answers with what was asked and what still waited. */
  end(): { readonly asked: Asked[]; readonly waiting: Asked[] } {
    return { asked: this.#asked.splice(0), waiting: this.#waiting.takeAll() };
  }

  #send(): void {
    if (this.#asked.length > 0 || this.#waiting.length === 0) return;
    const count = Math.min(this.#waiting.length, this.#notesPerFrame);
    const frame = Buffer.alloc(count * NOTE_BYTES);
    for (let n = 0; n < count; n++) {
      const asked = this.#waiting.shift() as Asked;
      encode(frame, n * NOTE_BYTES, asked.note);
      this.#asked.push(asked);
    }
    this.#engine.native.sendNote(this.#handle, frame);
  }
}

function encode(frame: Buffer, at: number, { kind, number, offset, first, second }: MemoryNote): void {
  frame.writeUInt32LE(kind, at);
  frame.writeUInt32LE(number, at + 4);
  frame.writeBigUInt64LE(offset, at + 8);
  frame.writeBigUInt64LE(first, at + 16);
  frame.writeBigUInt64LE(second, at + 24);
}

function decode(frame: Buffer, at: number): MemoryNote {
  const kind = frame.readUInt32LE(at);
  if (!KINDS.has(kind)) throw malformed(`a note about exposed memory is of unknown kind ${kind}`);
  return {
    kind: kind as MemoryNote['kind'],
    number: frame.readUInt32LE(at + 4),
    offset: frame.readBigUInt64LE(at + 8),
    first: frame.readBigUInt64LE(at + 16),
    second: frame.readBigUInt64LE(at + 24),
  };
}

function malformed(what: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_PROTOCOL', `the peer broke the protocol: ${what}`);
}
