import { MAX_MESSAGE_BYTES_LIMIT, VerbmqError } from '@verbmq/core';
import { truncateUtf8 } from './frame.js';
import { foreignBytes, protocolError } from './protocol-error.js';

/**
 * The opening: the first thing that each side sends. Its first twelve bytes, and the body of a refusal, stay as they
 * are in every version of the protocol for ever, so that peers of different versions can tell each other.
 *
 * ```
 * 0          6         7      8        12
 * | "VERBMQ" | version | kind | length | body: `length` bytes
 * ```
 */
const PROTOCOL_VERSION = 1;
const OPENING_HEADER_BYTES = 12;

const MAGIC = Buffer.from('VERBMQ', 'latin1');
const KIND_HELLO = 0;
const KIND_REFUSAL = 1;

/** A body beyond it is refused. Today's hello needs 24 bytes; later versions may add fields. */
const MAX_BODY_BYTES = 16 * 1024;

/** What each side tells of itself. */
export interface Hello {
  /** The longest message that it accepts, in bytes. */
  readonly maxMessageBytes: number;
  /** How much it may be sent before it grants more; see receive-window.ts. */
  readonly receiveWindowBytes: number;
  /** How much one-sided work it may be asked for at a time; see one-sided-owner.ts. */
  readonly oneSidedWindowBytes: number;
}

/** The fields of a hello: id u16, length u16, value. Unknown ids are skipped, so later versions may add some. */
const Field = { MAX_MESSAGE_BYTES: 1, RECEIVE_WINDOW_BYTES: 2, ONE_SIDED_WINDOW_BYTES: 3 } as const;

/** A window below it could not carry messages without needless waits. */
export const MIN_WINDOW_BYTES = 64 * 1024;
export const MAX_WINDOW_BYTES = 2 ** 30;

/** Why a peer is not let in. */
export const RefusalCode = {
  VERSION: 1,
  PROTOCOL: 2,
  OVERLOADED: 3,
  CLOSING: 4,
  HANDSHAKE_TIMEOUT: 5,
  CERTIFICATE: 6,
} as const;

const REFUSAL_ERRORS = {
  [RefusalCode.VERSION]: 'ERR_VERBMQ_VERSION',
  [RefusalCode.PROTOCOL]: 'ERR_VERBMQ_PROTOCOL',
  [RefusalCode.OVERLOADED]: 'ERR_VERBMQ_OVERLOADED',
  [RefusalCode.CLOSING]: 'ERR_VERBMQ_REJECTED',
  [RefusalCode.HANDSHAKE_TIMEOUT]: 'ERR_VERBMQ_HANDSHAKE_TIMEOUT',
  [RefusalCode.CERTIFICATE]: 'ERR_VERBMQ_TLS',
} as const;

export function encodeHello(hello: Hello): Buffer {
  const body = Buffer.alloc(3 * 8);
  putField(body, 0, Field.MAX_MESSAGE_BYTES, hello.maxMessageBytes);
  putField(body, 8, Field.RECEIVE_WINDOW_BYTES, hello.receiveWindowBytes);
  putField(body, 16, Field.ONE_SIDED_WINDOW_BYTES, hello.oneSidedWindowBytes);
  return opening(KIND_HELLO, body);
}

/** A refusal: code u16, then the reason in UTF-8, at most 1,024 bytes of it. */
export function encodeRefusal(code: number, reason: string): Buffer {
  const words = truncateUtf8(reason, 1024);
  const body = Buffer.alloc(2 + words.byteLength);
  body.writeUInt16LE(code, 0);
  body.set(words, 2);
  return opening(KIND_REFUSAL, body);
}

export interface Opening {
  readonly hello: Hello;
  /** How many bytes the opening took. */
  readonly byteLength: number;
}

/**
 * Reads an opening from what has arrived so far. `undefined`: more is needed.
 * @throws VerbmqError `ERR_VERBMQ_PROTOCOL`, `ERR_VERBMQ_VERSION`, or the error that a refusal stands for.
 */
export function decodeOpening(bytes: Buffer): Opening | undefined {
  const known = Math.min(bytes.byteLength, MAGIC.byteLength);
  if (!bytes.subarray(0, known).equals(MAGIC.subarray(0, known))) throw foreignBytes(bytes);
  if (bytes.byteLength < OPENING_HEADER_BYTES) return undefined;
  const version = bytes.readUInt8(6);
  const kind = bytes.readUInt8(7);
  const length = bytes.readUInt32LE(8);
  if (kind !== KIND_REFUSAL && version !== PROTOCOL_VERSION) {
    throw new VerbmqError(
      'ERR_VERBMQ_VERSION',
      `the peer speaks version ${version} of the protocol, this side version ${PROTOCOL_VERSION}: bring both to the same release`,
    );
  }
  if (kind !== KIND_HELLO && kind !== KIND_REFUSAL)
    throw protocolError(`its opening is of the unknown kind ${kind}`);
  if (length > MAX_BODY_BYTES) {
    throw protocolError(`its opening claims ${length} bytes; ${MAX_BODY_BYTES} are allowed`);
  }
  const byteLength = OPENING_HEADER_BYTES + length;
  if (bytes.byteLength < byteLength) return undefined;
  const body = bytes.subarray(OPENING_HEADER_BYTES, byteLength);
  if (kind === KIND_REFUSAL) throw refusal(body);
  return { hello: decodeFields(body), byteLength };
}

function opening(kind: number, body: Buffer): Buffer {
  const header = Buffer.alloc(OPENING_HEADER_BYTES);
  header.set(MAGIC, 0);
  header.writeUInt8(PROTOCOL_VERSION, 6);
  header.writeUInt8(kind, 7);
  header.writeUInt32LE(body.byteLength, 8);
  return Buffer.concat([header, body]);
}

function putField(body: Buffer, at: number, id: number, value: number): void {
  body.writeUInt16LE(id, at);
  body.writeUInt16LE(4, at + 2);
  body.writeUInt32LE(value, at + 4);
}

function decodeFields(body: Buffer): Hello {
  const values = new Map<number, number>();
  for (let at = 0; at < body.byteLength; ) {
    if (body.byteLength - at < 4) throw protocolError('its hello ends within a field');
    const id = body.readUInt16LE(at);
    const length = body.readUInt16LE(at + 2);
    at += 4;
    if (body.byteLength - at < length) throw protocolError(`field ${id} of its hello exceeds the hello`);
    if (length >= 4) values.set(id, body.readUInt32LE(at));
    at += length;
  }
  const field = (name: string, id: number, min: number, max: number): number => {
    const value = values.get(id);
    if (value === undefined || value < min || value > max) {
      throw protocolError(`its hello gives ${value} for ${name}, which must be from ${min} to ${max}`);
    }
    return value;
  };
  return {
    maxMessageBytes: field('maxMessageBytes', Field.MAX_MESSAGE_BYTES, 1, MAX_MESSAGE_BYTES_LIMIT),
    receiveWindowBytes: field(
      'receiveWindowBytes',
      Field.RECEIVE_WINDOW_BYTES,
      MIN_WINDOW_BYTES,
      MAX_WINDOW_BYTES,
    ),
    oneSidedWindowBytes: field(
      'oneSidedWindowBytes',
      Field.ONE_SIDED_WINDOW_BYTES,
      MIN_WINDOW_BYTES,
      MAX_WINDOW_BYTES,
    ),
  };
}

function refusal(body: Buffer): VerbmqError {
  if (body.byteLength < 2) throw protocolError('its refusal has no code');
  const code = body.readUInt16LE(0);
  const words = body.toString('utf8', 2);
  const known = (REFUSAL_ERRORS as Record<number, (typeof REFUSAL_ERRORS)[keyof typeof REFUSAL_ERRORS]>)[
    code
  ];
  // Who closes is perhaps started again.
  const options = code === RefusalCode.CLOSING ? { reason: 'closing', retryable: true } : {};
  return new VerbmqError(
    known ?? 'ERR_VERBMQ_REJECTED',
    `the peer refused the connection: ${words}`,
    options,
  );
}
