import type { Codec } from '../codec/codec.js';
import type { FrameReader } from './frame-reader.js';
import { FLAG } from './protocol.js';

/** Reads the body that is the rest of a frame. The answer does not refer to the frame. */
export function readBody(reader: FrameReader, codec: Codec): unknown {
  const { bytes, position } = reader;
  if (reader.has(FLAG.raw)) return copy(bytes, position);
  return decodeBody(bytes, position, codec);
}

/** A body that has memory of its own. */
export function ownBody(bytes: Uint8Array, raw: boolean, codec: Codec): unknown {
  return raw ? bytes : decodeBody(bytes, 0, codec);
}

function decodeBody(bytes: Uint8Array, start: number, codec: Codec): unknown {
  const end = bytes.byteLength;
  return start === end ? undefined : codec.decode(bytes, start, end);
}

/** Copies up to `SMALL_BYTES` share a pool of Node, those up to `MEDIUM_BYTES` a slab: an allocation costs more than the copy. */
const SMALL_BYTES = 1024;
const MEDIUM_BYTES = 16 * 1024;
/** The most that a body that is kept can keep with it, in bytes. */
const SLAB_BYTES = 64 * 1024;

let slab = new ArrayBuffer(0);
let slabUsed = 0;

function copy(bytes: Uint8Array, start: number): Uint8Array {
  const own = allocate(bytes.byteLength - start);
  own.set(start === 0 ? bytes : bytes.subarray(start));
  return own;
}

function allocate(length: number): Uint8Array {
  if (length <= SMALL_BYTES) return Buffer.allocUnsafe(length);
  if (length > MEDIUM_BYTES) return Buffer.allocUnsafeSlow(length);
  if (slabUsed + length > slab.byteLength) {
    slab = Buffer.allocUnsafeSlow(SLAB_BYTES).buffer;
    slabUsed = 0;
  }
  const own = Buffer.from(slab, slabUsed, length);
  slabUsed += (length + 7) & ~7;
  return own;
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { [Symbol.asyncIterator]?: unknown })[Symbol.asyncIterator] === 'function'
  );
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}
