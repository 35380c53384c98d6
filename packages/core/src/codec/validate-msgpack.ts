import { VerbmqError } from '../contract/errors.js';

/** What a MessagePack body may claim; checked before anything is made of it. */
export interface MsgpackLimits {
  /** How deep arrays and maps may lie in each other. */
  readonly maxDepth: number;
  /** How many values a body may hold in all, each key of a map counted as one. */
  readonly maxElements: number;
}

/** The deepest nesting that can be asked for: the decoder recurses, and must not run out of stack. */
export const MAX_DEPTH_LIMIT = 1024;

/** For each open array or map, how many values it still has to get. Shared: the check runs to its end at once. */
const open = new Float64Array(MAX_DEPTH_LIMIT);

/** The extension type of timestamps, and of the `undefined` that msgpackr writes. All others are refused. */
const TIMESTAMP = 0xff;
const UNDEFINED = 0x00;

/**
 * Walks over the structure of a MessagePack value without making anything of it. After it, decoding reads exactly
 * the bytes that are there, allocates in proportion to them, and recurses no deeper than the limit.
 *
 * Format: https://github.com/msgpack/msgpack/blob/master/spec.md
 *
 * @throws VerbmqError `ERR_VERBMQ_DECODE`.
 */
export function validateMsgpack(
  bytes: Uint8Array,
  start: number,
  end: number,
  { maxDepth, maxElements }: MsgpackLimits,
): void {
  let position = start;
  let expected = 1;
  let depth = 0;
  let elements = 1;
  for (;;) {
    while (expected === 0) {
      if (depth === 0) {
        if (position !== end) throw refused(`${end - position} bytes follow behind the value`);
        return;
      }
      depth--;
      expected = open[depth] as number;
    }
    expected--;
    if (position >= end) throw truncated();
    const token = bytes[position++] as number;
    let count = -1;
    if (token < 0x80 || token >= 0xe0) continue;
    if (token < 0x90) count = (token & 0x0f) * 2;
    else if (token < 0xa0) count = token & 0x0f;
    else if (token < 0xc0) position += token & 0x1f;
    else {
      switch (token) {
        case 0xc0:
        case 0xc2:
        case 0xc3:
          break;
        case 0xcc:
        case 0xd0:
          position += 1;
          break;
        case 0xcd:
        case 0xd1:
          position += 2;
          break;
        case 0xca:
        case 0xce:
        case 0xd2:
          position += 4;
          break;
        case 0xcb:
        case 0xcf:
        case 0xd3:
          position += 8;
          break;
        case 0xc4:
        case 0xd9:
          if (position + 1 > end) throw truncated();
          position += 1 + (bytes[position] as number);
          break;
        case 0xc5:
        case 0xda:
          if (position + 2 > end) throw truncated();
          position += 2 + uint16(bytes, position);
          break;
        case 0xc6:
        case 0xdb:
          if (position + 4 > end) throw truncated();
          position += 4 + uint32(bytes, position);
          break;
        case 0xdc:
        case 0xde:
          if (position + 2 > end) throw truncated();
          count = uint16(bytes, position) * (token === 0xde ? 2 : 1);
          position += 2;
          break;
        case 0xdd:
        case 0xdf:
          if (position + 4 > end) throw truncated();
          count = uint32(bytes, position) * (token === 0xdf ? 2 : 1);
          position += 4;
          break;
        default:
          position = afterExtension(bytes, position, end, token);
      }
    }
    if (count < 0) {
      if (position > end) throw truncated();
      continue;
    }
    // Every value takes a byte at least, so a count beyond the bytes that are left is a lie.
    if (count > end - position) throw truncated();
    elements += count;
    if (elements > maxElements) throw refused(`it holds more than ${maxElements} values`);
    if (count === 0) continue;
    if (depth >= maxDepth) throw refused(`it is nested deeper than ${maxDepth}`);
    open[depth++] = expected;
    expected = count;
  }
}

/** Only what our own encoder writes: a timestamp, and `undefined`. Types that a peer defines need a trusted peer. */
function afterExtension(bytes: Uint8Array, position: number, end: number, token: number): number {
  if (position + 2 > end) throw truncated();
  const type = token === 0xc7 ? (bytes[position + 1] as number) : (bytes[position] as number);
  switch (token) {
    case 0xd4:
      if (type === TIMESTAMP || type === UNDEFINED) return position + 2;
      break;
    case 0xd6:
      if (type === TIMESTAMP) return position + 5;
      break;
    case 0xd7:
      if (type === TIMESTAMP) return position + 9;
      break;
    case 0xc7:
      if (type === TIMESTAMP && bytes[position] === 12) return position + 14;
      break;
  }
  throw refused(`it holds a value of the extension token 0x${token.toString(16)}, type ${type}`);
}

function uint16(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
}

function uint32(bytes: Uint8Array, at: number): number {
  return uint16(bytes, at) * 0x10000 + uint16(bytes, at + 2);
}

function truncated(): VerbmqError {
  return refused('it ends before its last value');
}

function refused(why: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_DECODE', `a MessagePack body was refused: ${why}`);
}
