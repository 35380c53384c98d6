/**
 * verbmq over RDMA verbs: InfiniBand, RoCE and iWARP. Importing it works everywhere; the native addon and the RDMA
 * libraries are looked for when they are first needed, and `probe()` says what is missing.
 * @module
 */
export type { SharedReceiveTotals } from './binding.js';
export type {
  LargeMessageOptions,
  Polling,
  RdmaConnectOptions,
  RdmaListenOptions,
  RdmaTransportOptions,
  SharedReceiveQueueOptions,
  SlotOptions,
} from './options.js';
export { type ProbeOptions, probeRdma, type RdmaDetails, type RdmaDevice } from './probe.js';
export { RdmaConnection, type RdmaConnectionStats } from './rdma-connection.js';
export { RdmaListener } from './rdma-listener.js';
export { RdmaTransport, type RdmaTransportStats } from './rdma-transport.js';
