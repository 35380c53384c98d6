const reused = new WeakSet<ArrayBufferLike>();
/** Most processes have no such memory, and need not look it up with each send. */
let any = false;

/**
 * For transports: messages that lie in this buffer are overwritten by later ones when their lease has ended. A handler
 * may pass `message.data` to `send` and return: what cannot leave at once is then copied, and only then.
 */
export function markReused(buffer: ArrayBufferLike): void {
  any = true;
  reused.add(buffer);
}

/** For transports: the application has kept the message that lies in this buffer, so it stays as it is until marked again. */
export function markKept(buffer: ArrayBufferLike): void {
  reused.delete(buffer);
}

/** Whether the bytes may be overwritten when the handler that has them returns. */
export function isReused(data: Uint8Array): boolean {
  return any && reused.has(data.buffer);
}
