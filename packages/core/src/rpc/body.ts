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

/** Copies up to so many bytes share a slab: an allocation costs more than the copy. */
const SHARED_BYTES = 16 * 1024;
/** The most that a body that is kept can keep with it, in bytes. */
const SLAB_BYTES = 64 * 1024;
/** Up to here a loop copies faster than `set`, which needs a view of its own to copy from. */
const LOOP_BYTES = 128;

let slab: ArrayBufferLike = new ArrayBuffer(0);
let slabUsed = 0;

function copy(bytes: Uint8Array, start: number): Uint8Array {
  const length = bytes.byteLength - start;
  const own = allocate(length);
  if (length <= LOOP_BYTES) for (let i = 0; i < length; i++) own[i] = bytes[start + i] as number;
  else own.set(new Uint8Array(bytes.buffer, bytes.byteOffset + start, length));
  return own;
}

function allocate(length: number): Uint8Array {
  if (length > SHARED_BYTES) return allocateUnfilled(length);
  if (slabUsed + length > slab.byteLength) {
    slab = allocateUnfilled(SLAB_BYTES).buffer;
    slabUsed = 0;
  }
  const own = new Uint8Array(slab, slabUsed, length);
  slabUsed += (length + 7) & ~7;
  return own;
}

/** Memory for a body. Zeroing it first would cost as much as copying into it. */
export function allocateUnfilled(length: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
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
