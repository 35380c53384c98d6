/**
 * A transport within one process, with faults on demand. For tests only.
 * @module
 */
export type { ConnectVerdict, FrameInfo, FrameVerdict, MemoryFaults } from './faults.js';
export { MemoryTransport, type MemoryTransportOptions } from './memory-transport.js';
export { MemoryNetwork } from './network.js';
