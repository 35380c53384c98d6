import { isIP } from 'node:net';
import type { ConnectionOptions, ConnectOptions, ListenOptions } from '@verbmq/core';
import { checkInteger, checkOptions } from '@verbmq/core/transport-kit';

/**
 * How completions are noticed.
 *
 * - `event`: the process sleeps until the device wakes it. Least processor time.
 * - `adaptive`: as `event`, but after a completion it polls for a bounded time before it sleeps, as long as that is
 *   seen to pay. No processor time while idle. The default.
 * - `busy`: it polls always while a connection is open. Takes a whole core, for the lowest latency.
 */
export type Polling = 'event' | 'adaptive' | 'busy';

/** The memory of each connection; see docs/memory.md. */
export interface SlotOptions {
  /** Bytes of a slot, with 16 bytes of header; a multiple of 64. Default 4,096. */
  readonly slotBytes: number;
  /** Messages that may arrive before the application takes one. Default 128. */
  readonly receiveSlots: number;
  /** Messages that may be on their way out. Default 64. */
  readonly sendSlots: number;
}

/** Receive slots that accepted connections share; see docs/memory.md. */
export interface SharedReceiveQueueOptions {
  /**
   * How many slots the connections of one device share, of `slotBytes` each. Up to the device's `maxSharedReceives` and
   * `maxCompletionEntries`.
   */
  readonly slots: number;
  /**
   * The most connections that share them; a further one is refused. Eight slots are set aside for each, and the rest goes to
   * those that are busy.
   */
  readonly maxConnections: number;
}

/** The memory for messages that are longer than a slot, of each connection; see docs/memory.md. */
export interface LargeMessageOptions {
  /**
   * How much of such messages the peer may send before the application takes it, in bytes; a single longer message passes
   * when it is the only one. From 64 KiB to 1 GiB. Default 4 MiB.
   */
  readonly receiveWindowBytes: number;
  /**
   * How much registered memory the application may hold in each direction, in bytes: buffers of `allocate` that are not
   * sent, and received messages that it retains. A buffer beyond it is refused with `ERR_VERBMQ_NO_BUFFERS`; a message beyond
   * it is copied to ordinary memory when it is retained. Default 128 MiB.
   */
  readonly largeMemoryBytes: number;
  /**
   * How much registered memory the large messages of all connections of the transport may use in each direction, in bytes.
   * A single message passes when no other is under way. Beyond it messages wait, on their way in and out, `allocate` throws
   * `ERR_VERBMQ_NO_BUFFERS`, and a message is copied to ordinary memory when it is retained. Default 1 GiB.
   */
  readonly largeMemoryTotalBytes: number;
  /**
   * How much memory of all connections of the transport stays registered that nothing uses at the moment, in bytes; what has not been
   * used for the longest time goes first. Memory that is not used for some seconds is given back anyway. Default 64 MiB.
   */
  readonly idleMemoryBytes: number;
}

/** Options of an RDMA transport, and defaults for all of its connections. */
export interface RdmaTransportOptions
  extends ConnectionOptions,
    Partial<SlotOptions>,
    Partial<LargeMessageOptions> {
  /**
   * `send` waits while so many bytes have not left, or, of large messages, have not been read by the peer. Default 4 MiB, as
   * much as the window: while one message is read, the next ones are announced.
   */
  readonly highWaterMarkBytes?: number;
  /**
   * Accepted connections share their receive slots, for servers with thousands of them. `receiveSlots` is then how many one of
   * them may have at most. `maxConnections` is by default as many as take half of the slots. Default: each has its own.
   */
  readonly sharedReceiveQueue?: { readonly slots: number; readonly maxConnections?: number };
  /** Default `adaptive`. */
  readonly polling?: Polling;
  /** How long adaptive polling goes on after the last completion, in microseconds. Default 1,000. */
  readonly spinMicros?: number;
  /** Connection requests that may wait in the kernel. Default 128. */
  readonly backlog?: number;
  /** The device that is to be used, by its name (`ibv_devices` lists them): connections over another one are refused. */
  readonly device?: string;
  /** The local IP address to connect from, and with it the device, where `connect` is given none. */
  readonly localAddress?: string;
  /** Other files in place of libibverbs.so.1 and librdmacm.so.1: for tests with simulated devices. */
  readonly libraries?: { readonly ibverbs?: string; readonly rdmacm?: string };
}

/** What `listen` takes over RDMA. */
export interface RdmaListenOptions extends ListenOptions {
  /**
   * Handshakes that may be in progress, each with the memory of a connection; further requests are refused. Default 256.
   */
  readonly maxHandshakes?: number;
}

/** What `connect` takes over RDMA. */
export interface RdmaConnectOptions extends ConnectOptions {
  /** The local IP address to connect from, and with it the device. Default: what the kernel's routes say. */
  readonly localAddress?: string;
}

export interface ResolvedRdmaOptions extends SlotOptions, LargeMessageOptions {
  readonly polling: Polling;
  readonly spinMicros: number;
  readonly backlog: number;
  readonly sharedReceiveQueue: SharedReceiveQueueOptions | undefined;
  readonly device: string | undefined;
  readonly localAddress: string | undefined;
  readonly libraries: { readonly ibverbs?: string; readonly rdmacm?: string };
}

/** Of a shared receive queue, what is set aside for each connection; `cpp/engine/receive_pool.h` holds the same numbers. */
const SHARED_SLOTS_PER_CONNECTION = 8;
const SHARED_DATA_SLOTS = 4;
const MAX_SHARED_SLOTS = 1 << 20;
const DEFAULT_HIGH_WATER_MARK_BYTES = 4 * 1024 * 1024;
const POLLING: readonly Polling[] = ['event', 'adaptive', 'busy'];
const MAX_SLOT_BYTES = 1 << 20;
const MAX_SLOTS = 4096;
const MIN_WINDOW_BYTES = 64 * 1024;
const MAX_WINDOW_BYTES = 1024 ** 3;

/** The options that all transports have, with the defaults that are others here. */
export function withRdmaDefaults(options: RdmaTransportOptions): ConnectionOptions {
  checkOptions('options', options);
  const { highWaterMarkBytes = DEFAULT_HIGH_WATER_MARK_BYTES } = options;
  return { ...options, highWaterMarkBytes };
}

/** @throws TypeError or RangeError that names the option. */
export function resolveRdmaOptions(options: RdmaTransportOptions): ResolvedRdmaOptions {
  const {
    polling = 'adaptive',
    spinMicros = 1000,
    backlog = 128,
    slotBytes = 4096,
    receiveSlots = 128,
    sendSlots = 64,
    receiveWindowBytes = 4 * 1024 * 1024,
    largeMemoryBytes = 128 * 1024 * 1024,
    largeMemoryTotalBytes = 1024 ** 3,
    idleMemoryBytes = 64 * 1024 * 1024,
    libraries = {},
    device,
    localAddress,
  } = options;
  if (device !== undefined && (typeof device !== 'string' || device === ''))
    throw new TypeError('device must be the name of an RDMA device');
  checkLocalAddress(localAddress);
  checkOptions('libraries', libraries);
  for (const [name, file] of Object.entries(libraries))
    if (file !== undefined && typeof file !== 'string')
      throw new TypeError(`libraries.${name} must be the name of a file`);
  if (!POLLING.includes(polling)) throw new TypeError(`polling must be one of ${POLLING.join(', ')}`);
  checkInteger('spinMicros', spinMicros, 0, 1_000_000);
  checkInteger('backlog', backlog, 1, 65_535);
  checkInteger('slotBytes', slotBytes, 128, MAX_SLOT_BYTES);
  if (slotBytes % 64 !== 0) throw new RangeError(`slotBytes must be a multiple of 64, not ${slotBytes}`);
  checkInteger('receiveSlots', receiveSlots, 1, MAX_SLOTS);
  checkInteger('sendSlots', sendSlots, 4, MAX_SLOTS);
  checkInteger('receiveWindowBytes', receiveWindowBytes, MIN_WINDOW_BYTES, MAX_WINDOW_BYTES);
  checkInteger('largeMemoryBytes', largeMemoryBytes, 0, Number.MAX_SAFE_INTEGER);
  checkInteger('largeMemoryTotalBytes', largeMemoryTotalBytes, 0, Number.MAX_SAFE_INTEGER);
  checkInteger('idleMemoryBytes', idleMemoryBytes, 0, Number.MAX_SAFE_INTEGER);
  const sharedReceiveQueue = resolveSharedReceiveQueue(options.sharedReceiveQueue);
  if (sharedReceiveQueue !== undefined)
    checkInteger('receiveSlots', receiveSlots, SHARED_DATA_SLOTS, MAX_SLOTS);
  return {
    polling,
    spinMicros,
    backlog,
    slotBytes,
    receiveSlots,
    sendSlots,
    receiveWindowBytes,
    largeMemoryBytes,
    largeMemoryTotalBytes,
    idleMemoryBytes,
    sharedReceiveQueue,
    device,
    localAddress,
    libraries,
  };
}

/** @throws TypeError */
export function checkLocalAddress(localAddress: unknown): void {
  if (localAddress !== undefined && (typeof localAddress !== 'string' || isIP(localAddress) === 0))
    throw new TypeError('localAddress must be an IP address');
}

function resolveSharedReceiveQueue(
  given: RdmaTransportOptions['sharedReceiveQueue'],
): SharedReceiveQueueOptions | undefined {
  checkOptions('sharedReceiveQueue', given);
  if (given === undefined) return undefined;
  const { slots } = given;
  checkInteger('sharedReceiveQueue.slots', slots, SHARED_SLOTS_PER_CONNECTION, MAX_SHARED_SLOTS);
  const most = Math.floor(slots / SHARED_SLOTS_PER_CONNECTION);
  const { maxConnections = Math.ceil(most / 2) } = given;
  checkInteger('sharedReceiveQueue.maxConnections', maxConnections, 1, most);
  return { slots, maxConnections };
}

export function pollingNumber(polling: Polling): 0 | 1 | 2 {
  return POLLING.indexOf(polling) as 0 | 1 | 2;
}
