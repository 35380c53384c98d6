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

/** Memory of kept messages, and how many sends read from it. */
const kept = new WeakMap<ArrayBufferLike, number>();

/**
 * For transports: the application has kept the message that lies in this buffer, so it stays as it is until marked again. Until
 * the lease has ended and it is not `isBorrowed`, nothing else may be put there.
 */
export function markKept(buffer: ArrayBufferLike): void {
  reused.delete(buffer);
  kept.set(buffer, 0);
}

/** A send reads from this memory until `sent` settles, which may be after the message that lies there was released. */
export function noteBorrowed(data: Uint8Array, sent: Promise<void>): void {
  if (!any) return;
  const { buffer } = data;
  const sends = kept.get(buffer);
  if (sends === undefined) return;
  kept.set(buffer, sends + 1);
  const done = (): void => {
    kept.set(buffer, (kept.get(buffer) as number) - 1);
  };
  sent.then(done, done);
}

/** For transports: whether a send still reads from the memory of a message that was kept. */
export function isBorrowed(buffer: ArrayBufferLike): boolean {
  return (kept.get(buffer) ?? 0) > 0;
}

/** Whether the bytes may be overwritten when the handler that has them returns. */
export function isReused(data: Uint8Array): boolean {
  return any && reused.has(data.buffer);
}
