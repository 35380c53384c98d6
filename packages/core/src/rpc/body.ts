import type { Codec } from '../codec/codec.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import type { FrameReader } from './frame-reader.js';
import { FLAG } from './protocol.js';

// Own copies of imported constants: see "Code that runs for each message" in CONTRIBUTING.md.
const { raw: RAW } = FLAG;

/**
 * Reads the body that is the rest of a frame. The answer does not refer to the frame.
 * @throws VerbmqError `ERR_VERBMQ_DECODE`
 */
export function readBody(reader: FrameReader, codec: Codec): unknown {
  const { bytes, position, limit, memory } = reader;
  const length = limit - position;
  if (!reader.has(RAW)) {
    return memory === undefined || length > SHORT_BYTES
      ? decodeBody(bytes, position, limit, codec)
      : decodeBody(memory.part(reader.token, position, length), 0, length, codec);
  }
  if (memory === undefined) return copy(bytes, position, length);
  const view = memory.part(reader.token, position, length);
  return length <= HEAP_BYTES ? new Uint8Array(view) : filled(view);
}

/** A body that has memory of its own. */
export function ownBody(bytes: Uint8Array, raw: boolean, codec: Codec): unknown {
  return raw ? bytes : decodeBody(bytes, 0, bytes.length, codec);
}

function decodeBody(bytes: Uint8Array, start: number, end: number, codec: Codec): unknown {
  if (start === end) return undefined;
  try {
    return codec.decode(bytes, start, end);
  } catch (error) {
    // What a peer has sent must not be more than an error of its call, whatever a codec throws.
    if (isVerbmqError(error)) throw error;
    const why = error instanceof Error ? `: ${error.message}` : '';
    throw new VerbmqError('ERR_VERBMQ_DECODE', `the codec ${codec.name} refused a body${why}`, {
      cause: error,
    });
  }
}

/** Bodies up to this length are decoded from views that are kept, since decoders keep what they need with them: msgpackr a `DataView`. */
const SHORT_BYTES = 128;

/** V8 keeps arrays up to this length in its own heap, which costs least of all. */
const HEAP_BYTES = 64;
/** Copies up to these lengths share a slab, for an allocation costs more than the copy. */
const SMALL_BYTES = 1024;
const MEDIUM_BYTES = 16 * 1024;

/** Memory that is given away piece by piece. A piece that is kept keeps the slab. */
class Slab {
  readonly #bytes: number;
  #buffer: ArrayBufferLike = new ArrayBuffer(0);
  #used = 0;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  take(length: number): Uint8Array {
    if (this.#used + length > this.#buffer.byteLength) {
      this.#buffer = allocateUnfilled(this.#bytes).buffer;
      this.#used = 0;
    }
    const piece = new Uint8Array(this.#buffer, this.#used, length);
    this.#used += (length + 7) & ~7;
    return piece;
  }
}

const small = new Slab(8 * 1024);
const medium = new Slab(64 * 1024);

function copy(bytes: Uint8Array, start: number, length: number): Uint8Array {
  // Not of a Buffer, whose `slice` is no copy.
  if (length <= HEAP_BYTES && bytes.constructor === Uint8Array) return bytes.slice(start, start + length);
  return filled(new Uint8Array(bytes.buffer, bytes.byteOffset + start, length));
}

function filled(view: Uint8Array): Uint8Array {
  const own = allocate(view.length);
  own.set(view);
  return own;
}

function allocate(length: number): Uint8Array {
  if (length <= HEAP_BYTES) return new Uint8Array(length);
  if (length <= SMALL_BYTES) return small.take(length);
  if (length <= MEDIUM_BYTES) return medium.take(length);
  return allocateUnfilled(length);
}

/** Memory for a body. Zeroing it first would cost as much as copying into it. */
export function allocateUnfilled(length: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
}

// Of the many bodies that are bytes, neither of these asks for a property that they do not have: that is slow.

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !(value instanceof Uint8Array) &&
    typeof (value as { [Symbol.asyncIterator]?: unknown })[Symbol.asyncIterator] === 'function'
  );
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !(value instanceof Uint8Array) &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
