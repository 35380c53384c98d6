import { MAX_METADATA_BYTES } from './protocol.js';

/**
 * Texts that travel with a job or an event to whoever gets it, such as `traceparent`. At most 8 KiB in all. Unlike the metadata of
 * a call, which go no further than to the broker.
 */
export type MessageHeaders = Readonly<Record<string, string>>;

const NO_HEADERS: MessageHeaders = Object.freeze(Object.create(null));

/**
 * A copy without a prototype, so that no name means anything; `undefined` when there are none.
 * @throws TypeError for what is no object of strings, RangeError when it is too large.
 */
export function checkHeaders(headers: unknown): MessageHeaders | undefined {
  if (headers === undefined) return undefined;
  if (typeof headers !== 'object' || headers === null) throw new TypeError('headers must be an object');
  const names = Object.keys(headers);
  if (names.length === 0) return undefined;
  const copy: Record<string, string> = Object.create(null);
  let bytes = 0;
  for (const name of names) {
    const value: unknown = (headers as Record<string, unknown>)[name];
    if (typeof value !== 'string') throw new TypeError(`the header ${JSON.stringify(name)} must be a string`);
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
    if (bytes > MAX_METADATA_BYTES) {
      throw new RangeError(`headers may hold ${MAX_METADATA_BYTES} bytes at most`);
    }
    copy[name] = value;
  }
  return copy;
}

/** What came beside a job or an event. @throws what `refuse` makes of the mistake, for what is no headers. */
export function receivedHeaders(headers: unknown, refuse: (cause: unknown) => Error): MessageHeaders {
  try {
    return checkHeaders(headers) ?? NO_HEADERS;
  } catch (error) {
    throw refuse(error);
  }
}
