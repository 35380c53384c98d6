import { VerbmqError } from '../contract/errors.js';

/**
 * The kinds of frames. A frame is a message of the connection below; docs/protocol-auto.md describes each.
 * The first five are numbered, kept until they are acknowledged, and arrive exactly once and in order.
 */
export const FrameKind = {
  DATA: 1,
  CLOSE: 2,
  OPERATION: 3,
  ANSWER: 4,
  BATCH: 5,

  ACK: 16,
  SWITCH: 17,
  FAST_REQUEST: 18,
  FAST_GRANT: 19,
  FAST_DECLINE: 20,
  FAST_FAILED: 21,

  CLAIM: 32,
  PROOF: 33,
  PROVED: 34,
  READY: 35,

  HELLO: 48,
  CHALLENGE: 49,
  AUTHENTICATE: 50,
  WELCOME: 51,
  REFUSE: 52,
} as const;

/** How the header of a frame with one message begins: its kind, and how many messages it has. */
export const ONE_MESSAGE = FrameKind.DATA | (1 << 16);

/** Whether frames of this kind have a number: they carry data. */
export function isNumbered(kind: number): boolean {
  return kind <= FrameKind.BATCH;
}

/** kind u8, zero u8, messages u16, sequence u32, acknowledged u32, credit u32; little-endian. */
export const HEADER_BYTES = 16;

/** The longest frame that is not a message or part of a one-sided operation, in bytes. */
export const MAX_CONTROL_BYTES = 16 * 1024;

/** Byte by byte: for so few, that is faster than a DataView, which would have to be made for each frame. */
export function putUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

export function getUint32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)) >>>
    0
  );
}

/**
 * The whole number whose lowest 32 bits are `low` and which is nearest to `near`. Counters are whole numbers here and
 * 32 bits on the wire; far less than 2^31 of anything is ever under way.
 */
export function expand(low: number, near: number): number {
  return near + ((low - near) | 0);
}

/** How many messages the frame at `at` says that it has. */
export function messagesOf(memory: Uint8Array, at: number): number {
  return (memory[at + 2] as number) | ((memory[at + 3] as number) << 8);
}

/** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` where a frame has a payload and its kind has none. */
export function assertNoPayload(frame: Uint8Array): void {
  if (frame.length !== HEADER_BYTES) throw protocolError(`a frame of kind ${frame[0]} has a payload`);
}

/** A frame that carries an object as JSON, and has no number. */
export function jsonFrame(kind: number, value: object): Uint8Array {
  const payload = Buffer.from(JSON.stringify(value));
  const frame = new Uint8Array(HEADER_BYTES + payload.length);
  frame[0] = kind;
  frame.set(payload, HEADER_BYTES);
  return frame;
}

/** What a frame carries as JSON; `Fields` reads it. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` where it carries none. */
export function parseJsonFrame(frame: Uint8Array): unknown {
  for (let at = 1; at < HEADER_BYTES; at++)
    if (frame[at] !== 0) throw protocolError(`byte ${at} of the header of a control frame is not 0`);
  if (frame.byteLength > MAX_CONTROL_BYTES)
    throw protocolError(`a control frame of ${frame.byteLength} bytes is too long`);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(frame.subarray(HEADER_BYTES)));
  } catch (cause) {
    throw protocolError('a control frame does not carry JSON', cause);
  }
}

export function protocolError(what: string, cause?: unknown): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_PROTOCOL', `the peer broke the protocol of auto connections: ${what}`, {
    cause,
  });
}
