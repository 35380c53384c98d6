import { FRAME_CHARGE_BYTES, HEADER_BYTES, MAX_PAYLOAD_BYTES, REGION_FIXED_BYTES } from './frame.js';
import { protocolError } from './protocol-error.js';

/**
 * One-sided requests name the memory first:
 *
 * ```
 * | length u32 | offset u64 | key length u8 | key | then: data (WRITE), or the operands, u64 each (atomics)
 * ```
 *
 * Answers come in the order of the requests and carry nothing but their result, so no request needs a number.
 */
export interface Region {
  readonly key: Uint8Array;
  /** From the start of the memory; beyond 2^53 it is inexact, and out of bounds in any case. */
  readonly offset: number;
  readonly length: number;
  /** Data or operands. */
  readonly rest: Uint8Array;
}

/** What one request takes of the window for one-sided work: what is to be read or written, and an overhead. */
export function oneSidedCharge(length: number): number {
  return length + FRAME_CHARGE_BYTES;
}

/** The longest piece in which a transfer travels, for a window of the owner. Two of them fit any window. */
export function pieceBytes(windowBytes: number): number {
  return Math.min(MAX_PAYLOAD_BYTES, (windowBytes >>> 1) - FRAME_CHARGE_BYTES);
}

/** A request, complete but for `dataBytes` bytes that follow it. */
export function requestHead(
  type: number,
  key: Uint8Array,
  offset: bigint,
  length: number,
  operands: readonly bigint[],
  dataBytes: number,
): Buffer {
  const fixed = REGION_FIXED_BYTES + key.byteLength + operands.length * 8;
  const head = Buffer.allocUnsafe(HEADER_BYTES + fixed);
  head.writeUInt32LE(fixed + dataBytes, 0);
  head.writeUInt32LE(type, 4);
  head.writeUInt32LE(length, 8);
  head.writeBigUInt64LE(offset, 12);
  head.writeUInt8(key.byteLength, 20);
  head.set(key, 21);
  let at = 21 + key.byteLength;
  for (const operand of operands) at = head.writeBigUInt64LE(operand, at);
  return head;
}

/** Makes a WRITE of no bytes of one whose data are gone: it is answered in its turn like every other. */
export function withoutData(head: Uint8Array): Uint8Array {
  const view = viewOf(head);
  view.setUint32(0, head.byteLength - HEADER_BYTES, true);
  view.setUint32(HEADER_BYTES, 0, true);
  return head;
}

/** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` when the key exceeds the frame. */
export function decodeRegion(payload: Uint8Array): Region {
  const view = viewOf(payload);
  const keyEnd = REGION_FIXED_BYTES + view.getUint8(12);
  if (keyEnd > payload.byteLength) throw protocolError('the key in a one-sided request exceeds its frame');
  return {
    length: view.getUint32(0, true),
    offset: Number(view.getBigUint64(4, true)),
    key: payload.subarray(REGION_FIXED_BYTES, keyEnd),
    rest: payload.subarray(keyEnd),
  };
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
