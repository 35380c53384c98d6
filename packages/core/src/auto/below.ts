/** What the transports below an auto transport are given. */
import { formatAddress, type HostAddress, type PathAddress, type Scheme } from '../contract/address.js';
import { MAX_MESSAGE_BYTES_LIMIT, type ResolvedConnectionOptions } from '../contract/options.js';
import type { ConnectOptions } from '../contract/transport.js';
import { HEADER_BYTES, MAX_CONTROL_BYTES } from './frames.js';
import type { ResolvedAutoOptions } from './options.js';

/** The address for the base transport: without the scheme that only this transport knows. */
export function addressBelow({
  scheme,
  ...address
}: (HostAddress | PathAddress) & { scheme?: Scheme }): string | HostAddress | PathAddress {
  return scheme === undefined || scheme === 'verbmq' ? address : formatAddress(scheme, address);
}

/**
 * What the connections below are given: room for the header, and for the frames of the negotiation; and for nothing longer than those
 * until the peer has shown who it is.
 */
export function optionsBelow(options: ResolvedConnectionOptions): ResolvedConnectionOptions {
  const longest = Math.max(options.maxMessageBytes, MAX_CONTROL_BYTES) + HEADER_BYTES;
  return {
    ...options,
    maxMessageBytes: Math.min(longest, MAX_MESSAGE_BYTES_LIMIT),
    maxGreetingBytes: MAX_CONTROL_BYTES,
    debugLeases: false,
    inner: true,
  };
}

/** A fast connection is given up sooner than others: there is something to fall back to. */
export function optionsOfFast(
  { fastTimeoutMs }: ResolvedAutoOptions,
  connectionOptions: ResolvedConnectionOptions,
): ConnectOptions {
  return {
    ...optionsBelow(connectionOptions),
    heartbeatIntervalMs: Math.ceil(fastTimeoutMs / 4),
    peerTimeoutMs: fastTimeoutMs,
    timeoutMs: connectionOptions.handshakeTimeoutMs,
  };
}
