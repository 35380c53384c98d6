import { markAsUntransferable } from 'node:worker_threads';

function refuse(): never {
  throw new TypeError(
    'this memory is not only yours, and cannot be transferred: copy the bytes that you need',
  );
}

/** What an ArrayBuffer has of its own to give its memory away with. */
const GIVING_AWAY = ['transfer', 'transferToFixedLength'];
const REFUSAL: PropertyDescriptor = { value: refuse };

/**
 * For memory that more than the application works on, a device among them: it must stay where it is for as long as anybody does.
 * `postMessage` and `structuredClone` heed Node's mark on all versions; the methods of the buffer itself, which Node 20 has not, only on later ones.
 */
export function keepInPlace(buffer: ArrayBufferLike): void {
  markAsUntransferable(buffer);
  // Not defineProperties: a program may have frozen a buffer of its own.
  for (const method of GIVING_AWAY) Reflect.defineProperty(buffer, method, REFUSAL);
}
