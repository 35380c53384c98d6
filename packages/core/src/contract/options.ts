import { guarded, type Logger, silentLogger } from './logger.js';

/** Limits and times of a connection. Each transport takes them, for all of its connections or for one. */
export interface ConnectionOptions {
  /** The longest message that this side accepts, in bytes. Both sides' limits are exchanged; the smaller holds. Default 64 MiB. */
  readonly maxMessageBytes?: number;
  /** `send` waits while the transport holds at least so many bytes that have not left yet. Default 1 MiB. */
  readonly highWaterMarkBytes?: number;
  /**
   * The most that waiting sends may hold, in bytes, each counted with the 512 that it takes besides. A send beyond it is
   * refused with `ERR_VERBMQ_SEND_QUEUE_FULL`: the program does not await its sends. Default 256 MiB.
   */
  readonly maxQueuedBytes?: number;
  /** A peer that has been silent for so long is sent a ping, in milliseconds. 0 turns heartbeats off. Default 10,000. */
  readonly heartbeatIntervalMs?: number;
  /** A peer that has been silent for so long is taken for dead, in milliseconds. Default 30,000. */
  readonly peerTimeoutMs?: number;
  /** How long `close()` waits for what was accepted to be delivered, in milliseconds; then it aborts. Default 30,000. */
  readonly closeTimeoutMs?: number;
  /** How long a new connection may take for its handshake, in milliseconds. Default 10,000. */
  readonly handshakeTimeoutMs?: number;
  /**
   * Finds uses of a message after its release: each message is given memory of its own, which is taken away
   * at release, so that a forgotten view has length 0. Costs a copy a message. Also switched on by the
   * environment variable `VERBMQ_DEBUG=leases`. Default off.
   */
  readonly debugLeases?: boolean;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
  /**
   * For transports that are built on others: what is made with this is a part of something larger, which is told of on
   * the diagnostics channels in its place. Default off.
   */
  readonly inner?: boolean;
  /**
   * For transports that are built on others: the longest message that is accepted before the connection's `greeted()` was called, in
   * bytes, so that a stranger has little to claim memory with. A message beyond it ends the connection with `ERR_VERBMQ_PROTOCOL`.
   * The peer is not told of it. Default: as long as any message.
   */
  readonly maxGreetingBytes?: number;
}

/** Options in which nothing is open. */
export type ResolvedConnectionOptions = Required<ConnectionOptions>;

const MIB = 1024 * 1024;

/** The largest `maxMessageBytes` that can be asked for: 1 GiB. */
export const MAX_MESSAGE_BYTES_LIMIT = 1024 * MIB;

const DEFAULTS: ResolvedConnectionOptions = {
  maxMessageBytes: 64 * MIB,
  highWaterMarkBytes: MIB,
  maxQueuedBytes: 256 * MIB,
  heartbeatIntervalMs: 10_000,
  peerTimeoutMs: 30_000,
  closeTimeoutMs: 30_000,
  handshakeTimeoutMs: 10_000,
  debugLeases: false,
  logger: silentLogger,
  inner: false,
  maxGreetingBytes: MAX_MESSAGE_BYTES_LIMIT,
};

/** Node's timers take at most 2^31 - 1 ms; a longer time would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Fills in what `options` leaves open from `base`, and checks the result.
 * @throws TypeError or RangeError that names the option.
 */
export function resolveConnectionOptions(
  options: ConnectionOptions = {},
  base: ResolvedConnectionOptions = { ...DEFAULTS, debugLeases: debugLeasesByEnvironment() },
): ResolvedConnectionOptions {
  checkOptions('options', options);
  const resolved = { ...base };
  for (const key of Object.keys(DEFAULTS) as (keyof ConnectionOptions)[]) {
    if (options[key] !== undefined) Object.assign(resolved, { [key]: options[key] });
  }
  checkInteger('maxMessageBytes', resolved.maxMessageBytes, 1, MAX_MESSAGE_BYTES_LIMIT);
  checkInteger('highWaterMarkBytes', resolved.highWaterMarkBytes, 1, Number.MAX_SAFE_INTEGER);
  checkInteger('maxQueuedBytes', resolved.maxQueuedBytes, 1, Number.MAX_SAFE_INTEGER);
  checkInteger('heartbeatIntervalMs', resolved.heartbeatIntervalMs, 0, MAX_TIMER_MS);
  checkInteger('peerTimeoutMs', resolved.peerTimeoutMs, 1, MAX_TIMER_MS);
  checkInteger('closeTimeoutMs', resolved.closeTimeoutMs, 1, MAX_TIMER_MS);
  checkInteger('handshakeTimeoutMs', resolved.handshakeTimeoutMs, 1, MAX_TIMER_MS);
  if (typeof resolved.debugLeases !== 'boolean') throw new TypeError('debugLeases must be a boolean');
  if (typeof resolved.inner !== 'boolean') throw new TypeError('inner must be a boolean');
  checkInteger('maxGreetingBytes', resolved.maxGreetingBytes, 1, MAX_MESSAGE_BYTES_LIMIT);
  checkLogger(resolved.logger);
  return { ...resolved, logger: guarded(resolved.logger) };
}

/** @throws TypeError when `value` is not a number, RangeError when it is not an integer from `min` to `max`. */
export function checkInteger(name: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number') throw new TypeError(`${name} must be a number, not ${describe(value)}`);
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new RangeError(`${name} must be an integer from ${min} to ${max}, not ${value}`);
  }
  return value;
}

/**
 * Those of anything: `undefined` is none, and what is no object would be passed over in silence.
 * @throws TypeError that names what was to be an object.
 */
export function checkOptions(name: string, options: unknown): void {
  if (options !== undefined && (typeof options !== 'object' || options === null))
    throw new TypeError(`${name} must be an object, not ${describe(options)}`);
}

/** @throws TypeError when something is given that is no function. */
export function checkFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function')
    throw new TypeError(`${name} must be a function, not ${describe(value)}`);
}

const LOGGER_METHODS = ['debug', 'info', 'warn', 'error', 'child'] as const;

/** @throws TypeError when something is given that is no logger. */
export function checkLogger(logger: unknown): void {
  if (logger === undefined) return;
  const methods = logger as Record<string, unknown> | null;
  const missing = LOGGER_METHODS.find((method) => typeof methods?.[method] !== 'function');
  if (missing === undefined) return;
  throw new TypeError(`logger must be a pino logger or the like: ${describe(logger)} has no ${missing}()`);
}

/** @throws TypeError when something is given that is no `AbortSignal`. */
export function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw new TypeError(`signal must be an AbortSignal, not ${describe(signal)}`);
}

/** What a value is, for the words of an error. */
export function describe(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  return value.constructor?.name ?? 'an object';
}

function debugLeasesByEnvironment(): boolean {
  return (process.env.VERBMQ_DEBUG ?? '').split(',').includes('leases');
}
