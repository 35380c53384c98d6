/**
 * A transport that moves its connections between two others while messages are in flight.
 * @module
 */
export { AutoConnection } from './auto-connection.js';
export { type AutoDetails, AutoTransport, type AutoTransportOptions } from './auto-transport.js';
export type { AutoOptions, PathPolicy } from './options.js';
export { type PathInfo, type PathReason, pathChannel } from './path-info.js';
