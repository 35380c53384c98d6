import type { MessageHead } from './message-head.js';

/**
 * Outgoing memory of a transport (registered memory on RDMA) for one short message, written in the place from which it leaves. A
 * lease serves applications, for as long as they like; a room serves a layer of verbmq within one call, and there is no object
 * for each.
 */
export interface OutgoingRoom extends MessageHead {
  /** A `Buffer`, because encoders ask for one; its content is not initialised. */
  readonly bytes: Buffer;
  /** The transport's name for the memory. */
  readonly token: number;
}
