import { VerbmqError } from '@verbmq/core';
import { keepInPlace } from '@verbmq/core/transport-kit';
import type { Addon } from './binding.js';

/** Memory for the device, in whole pages that it shares with nothing else: after a fork, pinned pages may be missing in the child. */
export interface WholePages {
  readonly memory: ArrayBuffer;
  /** The first page boundary in `memory`, bytes: from here on it may be used. */
  readonly start: number;
}

/**
 * At least `bytes` bytes, zeroed; on huge pages where the kernel has them.
 * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS`
 */
export function allocatePages(addon: Addon, bytes: number): WholePages {
  const { pageBytes } = addon.layout;
  const wholePages = Math.ceil(bytes / pageBytes) * pageBytes;
  let memory: ArrayBuffer;
  try {
    memory = new ArrayBuffer(wholePages + pageBytes);
  } catch (cause) {
    throw new VerbmqError('ERR_VERBMQ_NO_BUFFERS', `${wholePages} bytes of memory cannot be had`, { cause });
  }
  // The device works on this memory, and would go on doing so where the application had given it away.
  keepInPlace(memory);
  addon.preferHugePages(memory);
  return { memory, start: addon.offsetOfPage(memory) };
}
