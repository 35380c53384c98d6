/**
 * verbmq: messages over RDMA and TCP. This package is the one to install: it puts the contract, both transports and
 * the choice between them by URL together.
 * @module
 */
export * from '@verbmq/core';
export {
  AutoConnection,
  type AutoDetails,
  type AutoOptions,
  AutoTransport,
  type AutoTransportOptions,
  type PathInfo,
  type PathPolicy,
  type PathReason,
  pathChannel,
} from '@verbmq/core/auto';
export {
  type Polling,
  RdmaConnection,
  type RdmaConnectionStats,
  type RdmaConnectOptions,
  type RdmaDetails,
  type RdmaDevice,
  type RdmaListenOptions,
  RdmaTransport,
  type RdmaTransportOptions,
  type RdmaTransportStats,
  type SharedReceiveTotals,
} from '@verbmq/native';
export {
  type TcpConnectOptions,
  type TcpListenOptions,
  TcpTransport,
  type TcpTransportOptions,
} from '@verbmq/tcp-fallback';
export {
  type AnyConnectOptions,
  type AnyListenOptions,
  type AnyTransportOptions,
  connect,
  createTransport,
  listen,
} from './transports.js';
export { VerbmqTransport, type VerbmqTransportOptions } from './verbmq-transport.js';
