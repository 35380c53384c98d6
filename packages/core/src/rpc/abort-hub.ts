/** Something that ends when a signal fires. */
export interface Abortable {
  onAbort(reason: unknown): void;
}

interface Hub {
  readonly waiting: Set<Abortable>;
  readonly listener: () => void;
}

const hubs = new WeakMap<AbortSignal, Hub>();

/**
 * Lets `abortable` know when `signal` fires. However many wait for a signal, it has one listener, and none when nobody
 * waits any more: thousands of calls may share one.
 */
export function watchSignal(signal: AbortSignal, abortable: Abortable): void {
  let hub = hubs.get(signal);
  if (hub === undefined) {
    const waiting = new Set<Abortable>();
    const listener = (): void => {
      hubs.delete(signal);
      for (const one of waiting) one.onAbort(signal.reason);
    };
    hub = { waiting, listener };
    hubs.set(signal, hub);
    signal.addEventListener('abort', listener, { once: true });
  }
  hub.waiting.add(abortable);
}

export function unwatchSignal(signal: AbortSignal, abortable: Abortable): void {
  const hub = hubs.get(signal);
  if (hub === undefined || !hub.waiting.delete(abortable) || hub.waiting.size > 0) return;
  hubs.delete(signal);
  signal.removeEventListener('abort', hub.listener);
}
