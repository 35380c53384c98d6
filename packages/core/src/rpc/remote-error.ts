/**
 * What a handler threw, as its caller sees it: message, `code` and `details`, and never the stack, unless the server
 * was told to send it.
 */
export class RemoteError extends Error {
  /** The `code` of the error that was thrown; `ERR_VERBMQ_RPC_HANDLER_FAILED` when it had none. */
  readonly code: string;
  /** The `details` of the error that was thrown. */
  readonly details: unknown;
  /** The method that was called. */
  readonly method: string;

  constructor(method: string, code: string, message: string, details: unknown) {
    super(message);
    this.method = method;
    this.code = code;
    this.details = details;
  }

  static {
    Object.defineProperty(RemoteError.prototype, 'name', {
      value: 'RemoteError',
      configurable: true,
      writable: true,
    });
  }
}

/** What of an error travels to the caller. */
export interface ErrorDescription {
  readonly code?: string | undefined;
  readonly message: string;
  /** Anything that the codec can encode. */
  readonly details?: unknown;
}

/** By default an error keeps its `code`, `message` and `details`. */
export function describeError(error: unknown): ErrorDescription {
  if (!(error instanceof Error)) return { message: String(error) };
  const { code, details } = error as { code?: unknown; details?: unknown };
  return {
    code: typeof code === 'string' ? code : undefined,
    message: error.message,
    details,
  };
}
