/**
 * The frames that follow the opening; docs/protocol.md describes each of them byte by byte. All integers are
 * little-endian, as on every machine that Node runs on.
 *
 * ```
 * 0        4      5       6          8
 * | length | type | flags | reserved | payload: `length` bytes
 * ```
 *
 * `flags` and `reserved` are 0; a frame where they are not is refused, so that a stream that lost its way is
 * noticed at its next header.
 */
export const HEADER_BYTES = 8;

export const FrameType = {
  /** A whole message. */
  DATA: 1,
  /** A message in pieces begins: its length, u32. */
  DATA_BEGIN: 2,
  /** The next piece of it. */
  DATA_PIECE: 3,
  /** The receiver's window grows by so many bytes, u32. */
  WINDOW: 4,
  PING: 5,
  PONG: 6,
  /** No more messages will come. */
  CLOSE: 7,
  /** The connection ends here: code u16, reason in UTF-8. */
  ABORT: 8,
  /** One-sided requests: see one-sided-frames.ts. */
  READ: 16,
  WRITE: 17,
  FETCH_ADD: 18,
  COMPARE_AND_SWAP: 19,
  /** Their answers, in the order of the requests. */
  READ_ANSWER: 24,
  WRITE_ANSWER: 25,
  ATOMIC_ANSWER: 26,
} as const;

/** The longest payload of a frame. A longer message travels in pieces, so that other frames can go between. */
export const MAX_PAYLOAD_BYTES = 1024 * 1024;

/**
 * What each DATA and DATA_PIECE frame takes of the receive window beside its payload. It stands for the header and
 * for the objects that a waiting message costs the receiver, so that a window bounds memory for tiny messages too.
 */
export const FRAME_CHARGE_BYTES = 128;

/** What a frame with so much payload takes of the receive window, and a waiting message of that length holds of it. */
export function chargeOf(bytes: number): number {
  return bytes + FRAME_CHARGE_BYTES;
}

/** Of the reason in an ABORT frame. */
export const MAX_REASON_BYTES = 1024;

/** How a one-sided request names memory: length u32, offset u64, length of the key u8, key. */
export const REGION_FIXED_BYTES = 13;
export const MAX_KEY_BYTES = 64;

const MAX_REGION_BYTES = REGION_FIXED_BYTES + MAX_KEY_BYTES;

/** The payload lengths that a frame of each type may have, by type; `max` is -1 where there is no such type. */
const MIN_LENGTH = new Int32Array(256);
const MAX_LENGTH = new Int32Array(256).fill(-1);

function define(type: number, min: number, max: number): void {
  MIN_LENGTH[type] = min;
  MAX_LENGTH[type] = max;
}

define(FrameType.DATA, 0, MAX_PAYLOAD_BYTES);
define(FrameType.DATA_BEGIN, 4, 4);
define(FrameType.DATA_PIECE, 1, MAX_PAYLOAD_BYTES);
define(FrameType.WINDOW, 4, 4);
define(FrameType.PING, 0, 0);
define(FrameType.PONG, 0, 0);
define(FrameType.CLOSE, 0, 0);
define(FrameType.ABORT, 2, 2 + MAX_REASON_BYTES);
define(FrameType.READ, REGION_FIXED_BYTES, MAX_REGION_BYTES);
define(FrameType.WRITE, REGION_FIXED_BYTES, MAX_REGION_BYTES + MAX_PAYLOAD_BYTES);
define(FrameType.FETCH_ADD, REGION_FIXED_BYTES + 8, MAX_REGION_BYTES + 8);
define(FrameType.COMPARE_AND_SWAP, REGION_FIXED_BYTES + 16, MAX_REGION_BYTES + 16);
define(FrameType.READ_ANSWER, 0, MAX_PAYLOAD_BYTES);
define(FrameType.WRITE_ANSWER, 0, 0);
define(FrameType.ATOMIC_ANSWER, 8, 8);

/** Whether a frame of this type may have a payload of this length. */
export function isLegalLength(type: number, length: number): boolean {
  return length <= (MAX_LENGTH[type] as number) && length >= (MIN_LENGTH[type] as number);
}

export function isKnownType(type: number): boolean {
  return (MAX_LENGTH[type] as number) >= 0;
}

/** Codes in an ABORT frame. An unknown one means the same as `OTHER`. */
export const AbortCode = {
  /** The application aborted, or the reason says more. */
  OTHER: 0,
  /** What came violates the protocol. */
  PROTOCOL: 1,
  /** A one-sided operation was refused; both sides end with `ERR_VERBMQ_REMOTE_ACCESS`. */
  REMOTE_ACCESS: 2,
} as const;

/** A header, and a payload of no more than a few bytes. */
export function smallFrame(type: number, payload: Uint8Array = NO_BYTES): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.byteLength);
  frame.writeUInt32LE(payload.byteLength, 0);
  frame.writeUInt32LE(type, 4);
  frame.set(payload, HEADER_BYTES);
  return frame;
}

export function abortFrame(code: number, reason: string): Buffer {
  const words = truncateUtf8(reason, MAX_REASON_BYTES);
  const payload = Buffer.allocUnsafe(2 + words.byteLength);
  payload.writeUInt16LE(code, 0);
  payload.set(words, 2);
  return smallFrame(FrameType.ABORT, payload);
}

/** The UTF-8 of `text`, cut to at most `maxBytes` between characters. */
export function truncateUtf8(text: string, maxBytes: number): Uint8Array {
  // A character never needs fewer bytes than its UTF-16 units, so the slice cannot lose what would have fitted.
  const bytes = Buffer.from(text.slice(0, maxBytes), 'utf8');
  if (bytes.byteLength <= maxBytes) return bytes;
  let end = maxBytes;
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

const NO_BYTES = new Uint8Array(0);
