/**
 * For those who implement a transport: the hooks' types, and the parts that transports share.
 * @module
 */
export type { ConnectionInit } from '../contract/connection.js';
export {
  type ExposedByTransport,
  KEPT,
  NOT_KEPT,
  NOT_TAKEN,
  WORDS_BYTES,
} from '../contract/connection-hooks.js';
export type { ReceiveMemory } from '../contract/direct-receiver.js';
export { Fifo } from '../contract/fifo.js';
export type { KeptSends } from '../contract/kept-sends.js';
export { Line } from '../contract/line.js';
export type { ListenerInit } from '../contract/listener.js';
export {
  type DescriptorFields,
  decodeDescriptor,
  encodeDescriptor,
  memoryGone,
  messageGone,
  type ResolvedMemoryAccess,
} from '../contract/memory.js';
export { keepInPlace } from '../contract/memory-in-place.js';
export type { MessageOwner } from '../contract/message.js';
export { copyHead, type MessageHead } from '../contract/message-head.js';
export { allEnded } from '../contract/operations.js';
export {
  checkInteger,
  checkOptions,
  describe,
  type ResolvedConnectionOptions,
  resolveConnectionOptions,
} from '../contract/options.js';
export { allocateMemory, copyOf } from '../contract/ordinary-memory.js';
export type { OutgoingRoom } from '../contract/outgoing-room.js';
export type { TransferPiece } from '../contract/remote-memory.js';
export { isBorrowed, isReused, markKept, markReused } from '../contract/reused-memory.js';
export type { ConnectAttempt, ListenRequest } from '../contract/transport.js';
export { discardMemory } from './discard-memory.js';
export { Heartbeat, type HeartbeatHooks } from './heartbeat.js';
export { MemoryRegions } from './memory-regions.js';
export { RecycledMemory, recycledBytesFor } from './recycled-memory.js';
export { connectError, listenError } from './system-errors.js';
export { unlessAborted } from './unless-aborted.js';
