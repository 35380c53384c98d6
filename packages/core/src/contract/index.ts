export {
  type Address,
  formatAddress,
  type HostAddress,
  isPathAddress,
  type PathAddress,
  parseAddress,
  type ResolvedAddress,
  SCHEMES,
  type Scheme,
} from './address.js';
export type { Capabilities, Support } from './capabilities.js';
export { Connection } from './connection.js';
export { channels } from './diagnostics.js';
export {
  ERROR_CODES,
  type ErrorCode,
  isVerbmqError,
  VerbmqError,
  type VerbmqErrorOptions,
} from './errors.js';
export type { MessageHandler } from './inbox.js';
export type { CloseInfo, ConnectionState } from './lifecycle.js';
export { type ConnectionHandler, Listener } from './listener.js';
export { type Logger, silentLogger } from './logger.js';
export {
  type ExposedMemory,
  MAX_VECTOR_PIECES,
  type MemoryAccess,
  type MemoryDescriptor,
  type ReadPiece,
  type RemoteMemory,
  type WritePiece,
} from './memory.js';
export { Message } from './message.js';
export { type ConnectionOptions, MAX_MESSAGE_BYTES_LIMIT } from './options.js';
export { OutgoingLease } from './outgoing-lease.js';
export type { ConnectionStats, ListenerStats, TransportStats } from './stats.js';
export { type ConnectOptions, type ListenOptions, type ProbeResult, Transport } from './transport.js';
