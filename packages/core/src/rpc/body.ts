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

/** Small copies share memory of Node's pool, which makes them some five times as cheap. */
function copy(bytes: Uint8Array, start: number): Uint8Array {
  const length = bytes.byteLength - start;
  const own = Buffer.allocUnsafe(length);
  own.set(start === 0 ? bytes : bytes.subarray(start));
  return own;
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}
