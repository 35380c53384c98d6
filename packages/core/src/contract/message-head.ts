/** Of this many bytes at most is a header that is copied as words. */
const COPIED_WORDS_BYTES = 16;

/** @internal A header that a layer upon a connection has for the next message; and memory that it can be put into. */
export interface MessageHead {
  /** It begins with the first byte. */
  readonly bytes: Uint8Array;
  /** The same memory, of which there are at least 16 bytes, however short the header is. */
  readonly words: Int32Array;
}

/**
 * @internal Copies a header of `headerBytes` bytes to `at` in `target`, a multiple of four. What lies behind it there, up to 16 bytes
 * from `at`, is overwritten: the words of a short header are copied in few steps.
 */
export function copyHead(head: MessageHead, headerBytes: number, target: MessageHead, at: number): void {
  if (headerBytes <= COPIED_WORDS_BYTES) {
    const from = head.words;
    const to = target.words;
    const word = at / 4; // not shifted: it may be beyond 2^31
    to[word] = from[0] as number;
    to[word + 1] = from[1] as number;
    to[word + 2] = from[2] as number;
    to[word + 3] = from[3] as number;
    return;
  }
  const from = head.bytes;
  const to = target.bytes;
  for (let i = 0; i < headerBytes; i++) to[at + i] = from[i] as number;
}
