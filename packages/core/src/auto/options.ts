import type { HostAddress } from '../contract/address.js';
import { type ConnectionOptions, checkInteger, MAX_TIMER_MS } from '../contract/options.js';

/**
 * - `prefer-rdma`: the fast path where it works, else the base.
 * - `require-rdma`: the fast path, or an error that says why not. No message of such a connection takes the base in either
 *   direction, whichever side requires it: `connect` resolves, and the listener accepts, when the fast path is there. A client
 *   that cannot have it is refused. When it breaks the connection ends with `ERR_VERBMQ_CONNECTION_LOST`, reason `broken`.
 * - `tcp`: the base, and the fast transport is not touched.
 */
export type PathPolicy = 'prefer-rdma' | 'require-rdma' | 'tcp';

/** What auto connections have beside what every connection has. */
export interface AutoOptions extends ConnectionOptions {
  /** Default `prefer-rdma`. */
  readonly policy?: PathPolicy;
  /**
   * Where a listener listens with its fast transport; at most 16, which the peer tries in this order. Each must exist, else `listen`
   * fails. Default: the address of the listener, with a port of its own.
   */
  readonly fastAddresses?: readonly HostAddress[];
  /**
   * Whether messages may leave a base connection that is encrypted, by TLS, for a fast path, which is not: RDMA sends in the clear.
   * Both sides must say so; else they stay on TLS, with the reason `encrypted`. Default false.
   */
  readonly unencryptedFastPath?: boolean;
  /**
   * A secret of at least 16 bytes that both sides have. Each proves to the other that it has it, without sending it, when a base
   * connection is made. It does not hide or sign what is sent after that: for that there is TLS.
   */
  readonly preSharedKey?: Uint8Array;
  /**
   * How much may be under way each way before the peer's application has taken it, in bytes; each message counts 64 more
   * than its length. So much is also kept, for the case that a path breaks. The smaller of both sides' holds. Default 4 MiB.
   */
  readonly windowBytes?: number;
  /** How long a session waits to be resumed when its base connection has broken, in milliseconds. 0: not at all. Default 30,000. */
  readonly resumeWindowMs?: number;
  /**
   * The longest pause before an attempt to resume, in milliseconds; the first may take a twentieth of it. After as long, or a second where
   * that is longer, an attempt that hangs is given up for the next one; twice as long each time, up to `handshakeTimeoutMs`. Default 5,000.
   */
  readonly maxResumeDelayMs?: number;
  /** The longest that any pause before a fast path is tried again may be, in milliseconds. Default 60,000. */
  readonly maxFastRetryMs?: number;
  /**
   * The longest that the first pause may be before a fast path that broke or could not be had is tried again, in milliseconds; doubled with
   * each failure. Each pause is drawn evenly from 0 up to that limit. Default 1,000.
   */
  readonly minFastRetryMs?: number;
  /** A fast path that has been silent for so long is left for the base, in milliseconds. Default 2,000. */
  readonly fastTimeoutMs?: number;
  /**
   * Connections of a listener that may be in their handshake, those that have failed in it and are not gone included; more are refused.
   * The base transport's handshakes, which come before, are bounded by the same number of their own, and those of fast connections by it or
   * 256, whichever is less. Default 1,024.
   */
  readonly maxHandshakes?: number;
  /**
   * Sessions of a listener that may wait to be resumed. When there are more, one ends: of those by which nothing was ever carried, if there
   * are any, else of all, one from the address from which most of them come (with IPv6: the first 64 bits), and of these the one that waits
   * longest. So clients that connect and vanish in numbers make room for each other, and not at the cost of the rest. Default 1,024.
   */
  readonly maxSuspendedSessions?: number;
}

export type ResolvedAutoOptions = Required<
  Omit<AutoOptions, keyof ConnectionOptions | 'fastAddresses' | 'preSharedKey'>
> & {
  readonly fastAddresses: readonly HostAddress[] | undefined;
  readonly preSharedKey: Uint8Array | undefined;
};

const POLICIES: readonly PathPolicy[] = ['prefer-rdma', 'require-rdma', 'tcp'];

const DEFAULTS: ResolvedAutoOptions = {
  policy: 'prefer-rdma',
  fastAddresses: undefined,
  unencryptedFastPath: false,
  preSharedKey: undefined,
  windowBytes: 4 * 1024 * 1024,
  resumeWindowMs: 30_000,
  maxResumeDelayMs: 5_000,
  maxFastRetryMs: 60_000,
  minFastRetryMs: 1_000,
  fastTimeoutMs: 2_000,
  maxHandshakes: 1024,
  maxSuspendedSessions: 1024,
};

const MIN_KEY_BYTES = 16;
/** So many are told to a peer, which takes no more. */
export const MAX_FAST_ADDRESSES = 16;

function isHostAddress(address: Partial<HostAddress> | null | undefined): boolean {
  return typeof address?.host === 'string' && address.host !== '' && typeof address.port === 'number';
}

/** @throws TypeError or RangeError */
function checkFastAddresses(addresses: readonly HostAddress[]): void {
  if (!Array.isArray(addresses) || addresses.length === 0 || !addresses.every(isHostAddress))
    throw new TypeError('fastAddresses must be an array of {host, port} that is not empty');
  if (addresses.length > MAX_FAST_ADDRESSES)
    throw new RangeError(`fastAddresses must be at most ${MAX_FAST_ADDRESSES}`);
  for (const { port } of addresses) checkInteger('the port of one of fastAddresses', port, 0, 65_535);
}

/** @throws TypeError or RangeError that names the option. */
export function resolveAutoOptions(
  options: AutoOptions,
  base: ResolvedAutoOptions = DEFAULTS,
): ResolvedAutoOptions {
  const resolved = { ...base };
  for (const key of Object.keys(DEFAULTS) as (keyof ResolvedAutoOptions)[]) {
    if (options[key] !== undefined) Object.assign(resolved, { [key]: options[key] });
  }
  if (!POLICIES.includes(resolved.policy))
    throw new TypeError(`policy must be one of ${POLICIES.join(', ')}`);
  const { preSharedKey, fastAddresses } = resolved;
  if (typeof resolved.unencryptedFastPath !== 'boolean')
    throw new TypeError('unencryptedFastPath must be a boolean');
  if (preSharedKey !== undefined && !(preSharedKey instanceof Uint8Array))
    throw new TypeError('preSharedKey must be a Uint8Array');
  if (preSharedKey !== undefined && preSharedKey.byteLength < MIN_KEY_BYTES)
    throw new RangeError(`preSharedKey must have at least ${MIN_KEY_BYTES} bytes`);
  if (fastAddresses !== undefined) checkFastAddresses(fastAddresses);
  checkInteger('windowBytes', resolved.windowBytes, 1, 2 ** 30);
  checkInteger('resumeWindowMs', resolved.resumeWindowMs, 0, MAX_TIMER_MS);
  checkInteger('maxResumeDelayMs', resolved.maxResumeDelayMs, 1, MAX_TIMER_MS);
  checkInteger('minFastRetryMs', resolved.minFastRetryMs, 1, MAX_TIMER_MS);
  checkInteger('maxFastRetryMs', resolved.maxFastRetryMs, resolved.minFastRetryMs, MAX_TIMER_MS);
  checkInteger('fastTimeoutMs', resolved.fastTimeoutMs, 1, MAX_TIMER_MS);
  checkInteger('maxHandshakes', resolved.maxHandshakes, 1, Number.MAX_SAFE_INTEGER);
  checkInteger('maxSuspendedSessions', resolved.maxSuspendedSessions, 0, Number.MAX_SAFE_INTEGER);
  return resolved;
}
