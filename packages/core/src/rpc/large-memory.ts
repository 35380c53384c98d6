import { allocateMemory } from '../contract/ordinary-memory.js';
import { discardMemory } from '../transport-kit/discard-memory.js';

/** The C library has memory from this length on from the kernel, until it has learnt better. */
const LARGE_BYTES = 128 * 1024;

/** It learns from pieces of less than 32 MiB, with its own header and in whole pages. */
const LESSON_BYTES = 32 * 1024 * 1024 - 64 * 1024;

let taught = false;

/**
 * Memory for a body that may be large, as a plain `Uint8Array`. Its content is arbitrary: zeroing it first would cost as much as
 * copying into it.
 *
 * A body is the program's, and only the garbage collector knows when it is needed no more. It frees some 32 MiB of such memory at a
 * time, which glibc would give back to the kernel; and then the bodies that follow get it page by page, as they are written, which
 * costs several times as much as writing them. See {@link teach}.
 *
 * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS`
 */
export function allocateLarge(bytes: number): Uint8Array<ArrayBuffer> {
  if (!taught && bytes >= LARGE_BYTES) teach();
  return new Uint8Array(allocateMemory(bytes).buffer);
}

/**
 * glibc goes by the longest piece that was mapped and freed so far, up to 32 MiB: shorter ones it does not map, and it keeps up to
 * twice as much of what is freed, with its pages. So it is shown one, of which no page is touched. Other C libraries do as they like.
 */
function teach(): void {
  taught = true;
  try {
    discardMemory(allocateMemory(LESSON_BYTES).buffer);
  } catch {
    // Where not even so much room can be had, there is nothing to keep.
  }
}
