/**
 * Turns values into bytes and back. `Uint8Array` bodies never get here: they travel as they are.
 *
 * A codec must be safe against any bytes: what a peer sends may claim anything, nest for ever and hold any key.
 */
export interface Codec {
  /** For logs and errors, and told to the peer, whose codec must have the same. At most 255 bytes. */
  readonly name: string;

  /**
   * Encodes `value`. The first `reserve` bytes of the answer are free for a header of the caller (at most
   * {@link MAX_RESERVE}), so that header and body are one message without a copy.
   *
   * Ownership: an answer of up to {@link MAX_BORROWED_BYTES} may be overwritten by the next call; a longer one is
   * the caller's.
   *
   * @throws VerbmqError `ERR_VERBMQ_ENCODE` for a value that cannot be encoded.
   */
  encode(value: unknown, reserve: number): Uint8Array;

  /**
   * Encodes `value` into `target` from `offset` on (at most {@link MAX_RESERVE}), where it can tell that it fits. Answers where the
   * value ends, or `-1` when it does not fit: then the content of `target` behind `offset` is undefined. Rpc calls it where the
   * transport has room to write in; without it bodies are encoded elsewhere and copied. `target` is often one of the calls before.
   *
   * @throws VerbmqError `ERR_VERBMQ_ENCODE` for a value that cannot be encoded.
   */
  encodeInto?(value: unknown, target: Buffer, offset: number): number;

  /**
   * Decodes what lies in `bytes` from `start` to `end`; what lies around it is none of its business. Nothing in the answer refers to `bytes`, whose lease may end
   * at once.
   *
   * @throws VerbmqError `ERR_VERBMQ_DECODE` for bytes that are malformed or exceed a limit.
   */
  decode(bytes: Uint8Array, start: number, end: number): unknown;
}

/** The most that a caller of `encode` may reserve, in bytes. */
export const MAX_RESERVE = 255;

/** Encodings up to this length may be overwritten by the next `encode`, in bytes. */
export const MAX_BORROWED_BYTES = 16 * 1024;
