import { markAsUntransferable } from 'node:worker_threads';

function refuse(): never {
  throw new TypeError(
    'this memory is not only yours, and cannot be transferred: copy the bytes that you need',
  );
}

/** What an ArrayBuffer has of its own to give its memory away with. */
type GivingAway = ArrayBufferLike & { transfer: () => never; transferToFixedLength: () => never };
const REFUSAL: PropertyDescriptor = { value: refuse };

/**
 * For memory that more than the application works on, be it a device, a repetition, or the next message: it must stay where it is for
 * as long as anybody does. `postMessage` and `structuredClone` heed Node's mark on all versions; the methods of the buffer itself,
 * which Node 20 has not, only from Node 24 on.
 */
export function keepInPlace(buffer: ArrayBufferLike): void {
  markAsUntransferable(buffer);
  try {
    // Not by defineProperty, which takes a hundred times as long: this is done as often as two messages come together.
    (buffer as GivingAway).transfer = refuse;
    (buffer as GivingAway).transferToFixedLength = refuse;
  } catch {
    // A program may have frozen ArrayBuffer.prototype. Where it has frozen a buffer of its own, nothing can be done.
    Reflect.defineProperty(buffer, 'transfer', REFUSAL);
    Reflect.defineProperty(buffer, 'transferToFixedLength', REFUSAL);
  }
}
