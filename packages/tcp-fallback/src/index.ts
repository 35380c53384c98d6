/**
 * verbmq over TCP, TLS and Unix sockets. docs/protocol.md describes what goes over the wire.
 * @module
 */
export type {
  TcpConnectOptions,
  TcpListenOptions,
  TcpTransportOptions,
  TcpWindowOptions,
} from './options.js';
export { TcpTransport } from './tcp-transport.js';
