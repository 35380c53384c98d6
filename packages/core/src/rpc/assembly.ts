import { VerbmqError } from '../contract/errors.js';
import { discardMemory } from '../transport-kit/discard-memory.js';
import { FrameError } from './frame-reader.js';
import { allocateLarge } from './large-memory.js';

/** What is allocated at first for a body, whatever length is claimed, in bytes. */
const FIRST_BYTES = 1024 * 1024;

/** What all bodies that are being assembled at one side of a connection may hold, and at a server the items that nobody has read. */
export class AssemblyBudget {
  readonly maxBodyBytes: number;
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBodyBytes: number) {
    this.maxBodyBytes = maxBodyBytes;
    this.maxBytes = maxBodyBytes * 4;
  }

  /** @throws VerbmqError `ERR_VERBMQ_OVERLOADED`. */
  take(bytes: number): void {
    if (this.#bytes + bytes > this.maxBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_OVERLOADED',
        `what has arrived and is not read, or not whole yet, would hold more than ${this.maxBytes} bytes (four times maxBodyBytes)`,
        { reason: 'bodies' },
      );
    }
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }

  get bytes(): number {
    return this.#bytes;
  }
}

/** A body that arrives in pieces. Its memory grows with what has arrived, not with what was claimed. */
export class Assembly {
  readonly raw: boolean;
  readonly #budget: AssemblyBudget;
  readonly #total: number;
  #bytes: Uint8Array<ArrayBuffer>;
  #filled = 0;

  /** @throws VerbmqError `ERR_VERBMQ_MESSAGE_TOO_LARGE` or `ERR_VERBMQ_OVERLOADED`. */
  constructor(budget: AssemblyBudget, total: number, raw: boolean) {
    if (total > budget.maxBodyBytes) {
      throw new VerbmqError(
        'ERR_VERBMQ_MESSAGE_TOO_LARGE',
        `a body of ${total} bytes exceeds the ${budget.maxBodyBytes} that are accepted: raise maxBodyBytes, or stream it`,
      );
    }
    this.raw = raw;
    this.#budget = budget;
    this.#total = total;
    const first = Math.min(total, FIRST_BYTES);
    this.#bytes = this.#allocate(first, first);
  }

  /**
   * Takes the next piece. Answers with the whole body after the last one.
   * @throws FrameError for an empty piece or one too many, VerbmqError `ERR_VERBMQ_OVERLOADED`.
   */
  add(piece: Uint8Array): Uint8Array | undefined {
    const filled = this.#filled + piece.byteLength;
    if (piece.byteLength === 0) throw new FrameError('an empty piece');
    if (filled > this.#total) throw new FrameError('a body is longer than it was announced');
    if (filled > this.#bytes.byteLength) this.#grow(filled);
    this.#bytes.set(piece, this.#filled);
    this.#filled = filled;
    if (filled < this.#total) return undefined;
    this.release();
    return this.#bytes;
  }

  /** The memory counts no more: the body is complete, or nobody wants it. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#budget.give(this.#bytes.byteLength);
  }

  #released = false;

  #grow(needed: number): void {
    const outgrown = this.#bytes;
    const bytes = Math.min(Math.max(needed, outgrown.byteLength * 2), this.#total);
    this.#bytes = this.#allocate(bytes, bytes - outgrown.byteLength);
    this.#bytes.set(outgrown.subarray(0, this.#filled));
    discardMemory(outgrown.buffer);
  }

  /** @param more than what counts already */
  #allocate(bytes: number, more: number): Uint8Array<ArrayBuffer> {
    this.#budget.take(more);
    try {
      return allocateLarge(bytes);
    } catch (error) {
      this.#budget.give(more);
      throw error;
    }
  }
}
