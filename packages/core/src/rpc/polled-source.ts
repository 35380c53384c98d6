export const POLL = Symbol('poll');
export const READY = Symbol('ready');

/** Whether there is room for what a source has. */
export interface Outlet {
  readonly open: boolean;
}

/**
 * The source of a stream that keeps what it has until the connection takes it, and not until it is asked for it: what waits, waits
 * where it is counted. Any other source may be asked long before it has something, and that is then in nobody's count.
 */
export interface PolledSource<T> extends AsyncIterator<T, undefined> {
  /** The next item, or the end; `undefined` while there is none. What it throws fails the stream. */
  [POLL](): IteratorResult<T, undefined> | undefined;
  /** Resolves when there is something, also where the stream was ended. Of `outlet` it may ask meanwhile. */
  [READY](outlet: Outlet): Promise<void>;
}

export function isPolled(source: object): source is PolledSource<unknown> {
  return POLL in source;
}
