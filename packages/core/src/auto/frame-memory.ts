import { allocateMemory } from '../contract/ordinary-memory.js';
import { RecycledMemory } from '../transport-kit/recycled-memory.js';

/**
 * Memory of frames that are long, for all connections of the process. It is used again when the peer has acknowledged the frame and
 * no path is writing it: a new piece for each frame costs as much as the copy, for its pages are given out one by one.
 */

/** Shorter frames lie in chunks; see `batch.ts`. Those that are longer are lent to the connection below. */
export const LONG_FRAME_BYTES = 16 * 1024;

/** At most 8 MiB of them wait to be used again. */
const pieces = new RecycledMemory(8 * 1024 * 1024);

/** How many still use a piece: who keeps the frame, and each path that is writing it. What is forgotten is garbage. */
const users = new WeakMap<ArrayBufferLike, number>();

/** Memory whose content is arbitrary; as a plain Uint8Array, whose views are made faster than a Buffer's. */
export function uninitialised(bytes: number): Uint8Array {
  return new Uint8Array(allocateMemory(bytes).buffer);
}

/** Memory for a frame, kept by the caller. Its content is arbitrary. */
export function takeFrame(bytes: number): Uint8Array {
  if (bytes <= LONG_FRAME_BYTES) return uninitialised(bytes);
  const piece = pieces.take(bytes);
  users.set(piece, 1);
  return new Uint8Array(piece, 0, bytes);
}

/** A path begins to write a frame. */
export function lendFrame(frame: Uint8Array): void {
  const count = users.get(frame.buffer);
  if (count !== undefined) users.set(frame.buffer, count + 1);
}

/** Whoever kept a frame of so many bytes, or wrote it, is done with it. */
export function giveFrame(frame: Uint8Array, bytes: number): void {
  if (bytes <= LONG_FRAME_BYTES) return;
  const { buffer } = frame;
  const count = users.get(buffer);
  if (count === undefined) return;
  if (count > 1) {
    users.set(buffer, count - 1);
    return;
  }
  users.delete(buffer);
  pieces.give(buffer as ArrayBuffer);
}
