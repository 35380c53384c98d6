/**
 * Calls over any connection: for one answer, or for streams in either direction or both.
 * @module
 */
export {
  type ClientAnswer,
  type ClientInterceptor,
  type ClientOptions,
  type ClientRequest,
  client,
} from './client.js';
export { type RpcTrace, rpcChannels } from './diagnostics.js';
export type { Metadata } from './metadata.js';
export { type ErrorDescription, RemoteError } from './remote-error.js';
export { type RpcConnectionStats, rpcStats } from './rpc-stats.js';
export { RpcServer, type RpcServerStats, type ServeOptions, serve } from './server.js';
export type { ServerInterceptor } from './server-core.js';
export type {
  CallContext,
  CallOptions,
  Client,
  ClientMethod,
  Handler,
  ServerStream,
  Service,
} from './service.js';
