/** What a value takes by itself, and what an object or array takes beyond that, and one that shows bytes. In bytes, as measured. */
const VALUE_BYTES = 16;
const OBJECT_BYTES = 48;
const VIEW_BYTES = 192;

/**
 * About how much memory a value takes, in bytes: of what it is in memory, not of how it was encoded, for a byte of MessagePack can be an
 * array. Counting stops when it is beyond `limit`, which ends it for cycles as well.
 */
export function estimateBytes(value: unknown, limit: number): number {
  if (value instanceof Uint8Array) return VALUE_BYTES + VIEW_BYTES + value.length;
  let bytes = 0;
  const pending: unknown[] = [value];
  while (pending.length > 0 && bytes <= limit) {
    const next = pending.pop();
    bytes += VALUE_BYTES;
    if (typeof next === 'string') bytes += next.length * 2;
    else if (typeof next === 'object' && next !== null) bytes += objectBytes(next, pending);
  }
  return bytes;
}

/** Of an object without what is in it, which is added to `pending`. */
function objectBytes(value: object, pending: unknown[]): number {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return VIEW_BYTES + value.byteLength;
  if (Array.isArray(value) || value instanceof Set) {
    for (const item of value) pending.push(item);
  } else if (value instanceof Map) {
    for (const [key, item] of value) pending.push(key, item);
  } else {
    for (const [key, item] of Object.entries(value)) pending.push(key, item);
  }
  return OBJECT_BYTES;
}
