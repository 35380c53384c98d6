import { discardMemory } from '@verbmq/core/transport-kit';

/** Shorter chunks are left to the garbage collector: giving one back costs as much whatever its length. */
const MIN_BYTES = 16 * 1024;

/** Gives back the memory of a chunk that the socket brought, of which nobody has a view any more. */
export function discardChunk(chunk: Uint8Array): void {
  const { buffer } = chunk;
  if (buffer.byteLength < MIN_BYTES || chunk.byteLength !== buffer.byteLength) return;
  discardMemory(buffer as ArrayBuffer);
}
