import type { Codec } from '../codec/codec.js';
import { type ErrorCode, VerbmqError } from '../contract/errors.js';
import { MAX_METHOD_BYTES } from './protocol.js';
import { RemoteError } from './remote-error.js';

/** The codes with which the rpc of the peer refuses or ends a call; whether the handler may have run by then. */
const OUTCOMES: ReadonlyMap<string, 'unknown' | undefined> = new Map<ErrorCode, 'unknown' | undefined>([
  ['ERR_VERBMQ_CANCELLED', 'unknown'],
  ['ERR_VERBMQ_DECODE', undefined],
  ['ERR_VERBMQ_ENCODE', 'unknown'],
  ['ERR_VERBMQ_MESSAGE_TOO_LARGE', undefined],
  ['ERR_VERBMQ_OVERLOADED', undefined],
  ['ERR_VERBMQ_RPC_DEADLINE', 'unknown'],
  ['ERR_VERBMQ_RPC_MISMATCH', 'unknown'],
  ['ERR_VERBMQ_RPC_UNKNOWN_METHOD', undefined],
]);

/** Whether an item of a stream may have been refused with this, which a handler reads meanwhile, and not the call itself. */
function isOfItem(code: string, reason: string): boolean {
  if (code === 'ERR_VERBMQ_DECODE') return reason !== 'codec';
  return code === 'ERR_VERBMQ_MESSAGE_TOO_LARGE' || (code === 'ERR_VERBMQ_OVERLOADED' && reason === 'bodies');
}

/**
 * The error that a caller gets for an `error` frame.
 * @param streamed whether the caller sends a stream.
 */
export function errorFromFrame(
  method: string,
  streamed: boolean,
  thrown: boolean,
  code: string,
  reason: string,
  message: string,
  details: unknown,
): Error {
  // What a handler threw keeps its code, but is never mistaken for an error of this connection.
  if (thrown || !OUTCOMES.has(code)) return new RemoteError(method, code, message, details);
  const mayHaveRun = OUTCOMES.get(code) === 'unknown' || (streamed && isOfItem(code, reason));
  return new VerbmqError(code as ErrorCode, message, {
    reason: reason === '' ? undefined : reason,
    ...(mayHaveRun && { outcome: 'unknown', retryable: false }),
  });
}

/** The longest time that a call may be given, in milliseconds. */
export const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** @throws TypeError or RangeError. */
export function checkTimeout(timeoutMs: number): void {
  if (typeof timeoutMs !== 'number') throw new TypeError('timeoutMs must be a number');
  if (!(timeoutMs >= 0 && timeoutMs <= MAX_TIMEOUT_MS)) {
    throw new RangeError(`timeoutMs must be from 0 to ${MAX_TIMEOUT_MS}, not ${timeoutMs}`);
  }
}

export function cancelledError(method: string, reason: unknown): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_CANCELLED', `the call of ${method} was cancelled by its AbortSignal`, {
    cause: reason,
  });
}

/** Both sides tell their codecs, so that no body is taken for something else. */
export function codecError(own: string, peer: string): VerbmqError {
  return new VerbmqError(
    'ERR_VERBMQ_DECODE',
    `this side has the codec ${JSON.stringify(own)}, the peer ${JSON.stringify(peer)}: use the same one on both`,
    { reason: 'codec' },
  );
}

/** @throws TypeError or RangeError for what is no codec, or cannot be told of. */
export function checkCodec(codec: Codec): Codec {
  const { name, encode, encodeInto = encode, decode } = codec as Partial<Codec>;
  const isCodec = [encode, encodeInto, decode].every((method) => typeof method === 'function');
  if (typeof name !== 'string' || !isCodec)
    throw new TypeError('codec must have a name, and the methods encode and decode (see Codec)');
  if (Buffer.byteLength(codec.name) > MAX_METHOD_BYTES) {
    throw new RangeError(`the name of a codec may have ${MAX_METHOD_BYTES} bytes at most`);
  }
  return codec;
}

/** @throws TypeError for what is no array of functions. */
export function checkInterceptors<T>(interceptors: readonly T[]): readonly T[] {
  if (!Array.isArray(interceptors) || interceptors.some((each) => typeof each !== 'function'))
    throw new TypeError('interceptors must be an array of functions');
  return interceptors;
}

export function closedError(end: VerbmqError): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_CLOSED', `the connection has ended (${end.message}); connect again`, {
    cause: end,
  });
}
