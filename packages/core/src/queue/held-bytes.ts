/** What a value takes by itself, what an object or array takes beyond that, and what the queue keeps beside a body. In bytes. */
const VALUE_BYTES = 16;
const OBJECT_BYTES = 48;
const ENTRY_BYTES = 64;

/**
 * About how much memory a piece of work takes, in bytes: of what it is in memory, not of how it was encoded, for a byte of
 * MessagePack can be an array. Counting stops when it is beyond `limit`, which ends it for cycles as well.
 */
export function entryBytes(body: unknown, limit: number): number {
  let bytes = ENTRY_BYTES;
  const pending: unknown[] = [body];
  while (pending.length > 0 && bytes <= limit) {
    const value = pending.pop();
    bytes += VALUE_BYTES;
    if (typeof value === 'string') bytes += value.length * 2;
    else if (typeof value === 'object' && value !== null) bytes += objectBytes(value, pending);
  }
  return bytes;
}

/** Of an object without what is in it, which is added to `pending`. */
function objectBytes(value: object, pending: unknown[]): number {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return OBJECT_BYTES + value.byteLength;
  if (Array.isArray(value) || value instanceof Set) {
    for (const item of value) pending.push(item);
  } else if (value instanceof Map) {
    for (const [key, item] of value) pending.push(key, item);
  } else {
    for (const [key, item] of Object.entries(value)) pending.push(key, item);
  }
  return OBJECT_BYTES;
}

/** What all queues of a broker hold together: what waits, what is being done, and what waits for room. */
export class HeldBytes {
  readonly max: number;
  held = 0;

  constructor(max: number) {
    this.max = max;
  }

  /** Whether there would be room for `bytes` if `freed` were given back. */
  fits(bytes: number, freed = 0): boolean {
    return this.held - freed + bytes <= this.max;
  }

  take(bytes: number): void {
    this.held += bytes;
  }

  giveBack(bytes: number): void {
    this.held -= bytes;
  }
}
