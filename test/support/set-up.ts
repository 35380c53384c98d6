import type { Address, Capabilities, ConnectionOptions, Transport } from '@verbmq/core';
import { inFull } from '../../scripts/test/scope.mjs';

/** How a peer in another process makes its transport; all of it survives JSON. */
export interface PeerTransport {
  readonly module: string;
  readonly name: string;
  readonly options: Record<string, unknown>;
  readonly listenOptions?: Record<string, unknown>;
  readonly connectOptions?: Record<string, unknown>;
  /** A module whose `prepare` is called with this argument before anything else in the peer's process. */
  readonly preparation?: { readonly module: string; readonly argument: unknown };
}

/** What the conformance suite must know of a transport. */
export interface SetUp {
  /** The `kind` of its connections and listeners. */
  readonly kind: string;
  /** What its connections claim. A test compares it with what they say, so that a skip cannot hide a loss. */
  readonly capabilities: Capabilities;
  /** Message lengths at which the transport changes its way: slots, fragments, pieces. */
  readonly boundaries: readonly number[];
  /** The most bytes that lie at a receiver that does not read, before its peer waits. */
  readonly unreadBytes: number;
  /** Whether a peer in another process can be reached. */
  readonly crossesProcesses: boolean;
  readonly peer: PeerTransport;
  createTransport(options?: ConnectionOptions): Transport;
  /** The address of a transport that this one is not, where `verbmq://` is its own. */
  readonly foreignAddress?: string;
  /** Where a listener may listen: a fresh place each time. */
  listenAddress(): Address;
  /** Where nobody listens. */
  deadAddress(): Address;
}

/** In the guest under software emulation everything takes some fifteen times as long. */
export const inGuest = process.env.VERBMQ_GUEST !== undefined;

/** Under sanitizers everything takes some four times as long. */
export const isSanitized = process.env.VERBMQ_ADDON === 'asan';

/** How often to do something that is done `times` times on an ordinary machine. */
export function scaled(times: number, atLeast = 4): number {
  const less = inGuest ? 10 : isSanitized && !inFull ? 4 : 1;
  return less === 1 ? times : Math.max(atLeast, Math.ceil(times / less));
}

/** The time in milliseconds that a thing may take which takes at most `ms` on an ordinary machine. */
export function stretched(ms: number): number {
  return inGuest ? ms * 15 : ms;
}
