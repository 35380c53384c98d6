import type { ResolvedAddress } from '../contract/address.js';
import type { Frame } from './frames.js';

/**
 * What becomes of an attempt to connect: `refuse` it, as where nobody listens; `lose` the connection while the peer has
 * it already and the caller has not; or `ignore` the attempt, as a peer does that accepts and never speaks.
 */
export type ConnectVerdict = 'accept' | 'refuse' | 'lose' | 'ignore';

/**
 * What becomes of a frame: `drop` it, and the peer is silent; `lose` the connection in its place, on both sides; or let it,
 * and all behind it, wait for a promise.
 */
export type FrameVerdict = 'deliver' | 'drop' | 'lose' | Promise<void>;

/** A frame as a fault sees it. */
export interface FrameInfo {
  readonly kind: Frame['kind'];
  /** The transport's connection that sends it, by its `id`. */
  readonly connectionId: number;
  /** How many frames of this kind this connection has sent before. */
  readonly index: number;
}

/**
 * Faults to be injected into a memory transport. They act on what this transport's side sends or asks for: give one to
 * either side, or one to each. Everything that is left out works.
 */
export interface MemoryFaults {
  readonly connect?: (address: ResolvedAddress) => ConnectVerdict;
  readonly frame?: (frame: FrameInfo) => FrameVerdict;
  /** `false` lets an `allocate` or `expose` of so many bytes fail with `ERR_VERBMQ_NO_BUFFERS`. */
  readonly allocate?: (bytes: number) => boolean;
}
