/**
 * Every code that verbmq gives an error. They are stable: programs may compare them.
 * docs/errors.md says of each what it means and what to do about it.
 */
export const ERROR_CODES = [
  'ERR_VERBMQ_ABORTED',
  'ERR_VERBMQ_ADDRESS_IN_USE',
  'ERR_VERBMQ_CANCELLED',
  'ERR_VERBMQ_CLOSED',
  'ERR_VERBMQ_CLOSE_TIMEOUT',
  'ERR_VERBMQ_CONNECTION_LOST',
  'ERR_VERBMQ_CONNECT_FAILED',
  'ERR_VERBMQ_CONNECT_TIMEOUT',
  'ERR_VERBMQ_DECODE',
  'ERR_VERBMQ_DEVICE',
  'ERR_VERBMQ_ENCODE',
  'ERR_VERBMQ_HANDSHAKE_TIMEOUT',
  'ERR_VERBMQ_INVALID_ADDRESS',
  'ERR_VERBMQ_INVALID_DESCRIPTOR',
  'ERR_VERBMQ_LEASE_RELEASED',
  'ERR_VERBMQ_LISTEN_FAILED',
  'ERR_VERBMQ_MEMLOCK',
  'ERR_VERBMQ_MESSAGE_TOO_LARGE',
  'ERR_VERBMQ_NO_BUFFERS',
  'ERR_VERBMQ_OVERLOADED',
  'ERR_VERBMQ_PEER_ABORTED',
  'ERR_VERBMQ_PEER_TIMEOUT',
  'ERR_VERBMQ_PROTOCOL',
  'ERR_VERBMQ_RECEIVER_ATTACHED',
  'ERR_VERBMQ_REJECTED',
  'ERR_VERBMQ_REMOTE_ACCESS',
  'ERR_VERBMQ_RPC_DEADLINE',
  'ERR_VERBMQ_RPC_HANDLER_FAILED',
  'ERR_VERBMQ_RPC_MISMATCH',
  'ERR_VERBMQ_RPC_UNKNOWN_METHOD',
  'ERR_VERBMQ_SEND_QUEUE_FULL',
  'ERR_VERBMQ_TLS',
  'ERR_VERBMQ_UNAVAILABLE',
  'ERR_VERBMQ_UNSUPPORTED',
  'ERR_VERBMQ_VERSION',
] as const;

/** One of {@link ERROR_CODES}. */
export type ErrorCode = (typeof ERROR_CODES)[number];

/** The codes after which the same call may succeed later, with nothing changed by the caller. */
const RETRYABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ERR_VERBMQ_CONNECTION_LOST',
  'ERR_VERBMQ_CONNECT_FAILED',
  'ERR_VERBMQ_CONNECT_TIMEOUT',
  'ERR_VERBMQ_HANDSHAKE_TIMEOUT',
  'ERR_VERBMQ_NO_BUFFERS',
  'ERR_VERBMQ_OVERLOADED',
  'ERR_VERBMQ_PEER_ABORTED',
  'ERR_VERBMQ_PEER_TIMEOUT',
  'ERR_VERBMQ_SEND_QUEUE_FULL',
]);

/** What an error says beside its code and message. */
export interface VerbmqErrorOptions {
  /** What led to this error: a system error, another VerbmqError, the reason of an AbortSignal. */
  readonly cause?: unknown;
  /**
   * `'unknown'` when the operation may or may not have taken effect at the peer; absent when it certainly did
   * not, or when the question makes no sense.
   */
  readonly outcome?: 'unknown' | undefined;
  /** A finer, stable, machine-readable reason where a code has several: `'no-device'`, `'memlock'`, … */
  readonly reason?: string | undefined;
  /** Overrides whether the same call may succeed later. */
  readonly retryable?: boolean;
}

/**
 * The one error class of verbmq: everything that can go wrong outside of the caller's program. Mistakes in the
 * program (an argument of the wrong type, a length out of range) are `TypeError` and `RangeError` instead.
 */
export class VerbmqError extends Error {
  /** Stable; see {@link ERROR_CODES}. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later without anything being changed. */
  readonly retryable: boolean;
  /** `'unknown'` when the operation may or may not have taken effect at the peer. */
  readonly outcome: 'unknown' | undefined;
  /** A finer, stable word where a code has several causes. */
  readonly reason: string | undefined;

  constructor(code: ErrorCode, message: string, options: VerbmqErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? RETRYABLE.has(code);
    this.outcome = options.outcome;
    this.reason = options.reason;
  }

  static {
    Object.defineProperty(VerbmqError.prototype, 'name', {
      value: 'VerbmqError',
      configurable: true,
      writable: true,
    });
  }

  /** The same error for an operation that had already left and whose effect at the peer nobody knows. */
  withUnknownOutcome(): VerbmqError {
    if (this.outcome === 'unknown') return this;
    return new VerbmqError(this.code, `${this.message} (the outcome of this operation is unknown)`, {
      cause: this,
      outcome: 'unknown',
      reason: this.reason,
      retryable: false,
    });
  }

  /** The same error for an operation that certainly had no effect, where that of others may have had one. */
  withKnownOutcome(): VerbmqError {
    if (this.outcome === undefined) return this;
    const { code, message, cause, reason } = this;
    return isVerbmqError(cause, code) ? cause : new VerbmqError(code, message, { cause: this, reason });
  }
}

/** Whether `value` is an error of verbmq, and has this code, where one is given. */
export function isVerbmqError(value: unknown, code?: ErrorCode): value is VerbmqError {
  return value instanceof VerbmqError && (code === undefined || value.code === code);
}
