import { VerbmqError } from './errors.js';

/**
 * Ordinary memory of so many bytes, all of an `ArrayBuffer`; its content is not initialised.
 * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` where the system has no more
 */
export function allocateMemory(bytes: number): Buffer<ArrayBuffer> {
  return orNoBuffers(bytes, () => Buffer.allocUnsafeSlow(bytes));
}

/**
 * A copy of `data`.
 * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` where the system has no more memory
 */
export function copyOf(data: Uint8Array): Uint8Array<ArrayBuffer> {
  return orNoBuffers(data.length, () => new Uint8Array(data));
}

function orNoBuffers<T>(bytes: number, allocate: () => T): T {
  try {
    return allocate();
  } catch (cause) {
    throw new VerbmqError('ERR_VERBMQ_NO_BUFFERS', `${bytes} bytes of memory cannot be had`, { cause });
  }
}
