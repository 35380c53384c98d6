import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import {
  type Connection,
  channels,
  formatAddress,
  isPathAddress,
  type Listener,
  type ProbeResult,
  type ResolvedAddress,
  Transport,
  type TransportStats,
  VerbmqError,
} from '@verbmq/core';
import {
  type ConnectAttempt,
  checkInteger,
  type ListenRequest,
  unlessAborted,
} from '@verbmq/core/transport-kit';
import type { DeviceNotice, SharedReceiveTotals } from './binding.js';
import { connectOnce } from './connect-attempt.js';
import { loadAddon } from './load-addon.js';
import { toConnectError, toListenError, toVerbmqError } from './native-error.js';
import {
  checkLocalAddress,
  type RdmaConnectOptions,
  type RdmaListenOptions,
  type RdmaTransportOptions,
  resolveRdmaOptions,
  withRdmaDefaults,
} from './options.js';
import { probeRdma, type RdmaDetails } from './probe.js';
import { RdmaEngine } from './rdma-engine.js';
import { RdmaListener, refuseOtherDevice } from './rdma-listener.js';

/** Counters of an RDMA transport. A snapshot. */
export interface RdmaTransportStats extends TransportStats {
  /** Memory that is registered at this moment for all connections, those in their handshake too, in bytes; and in how many pieces. */
  readonly registeredBytes: number;
  readonly registeredRegions: number;
  /** Of it, what large messages on their way in and out use, and what nothing uses at this moment, in bytes. */
  readonly largeMemoryInBytes: number;
  readonly largeMemoryOutBytes: number;
  readonly idleMemoryBytes: number;
  /** Receive slots that connections share; there with the option `sharedReceiveQueue`. */
  readonly sharedReceiveQueue?: SharedReceiveTotals;
}

const NOTHING_SHARED: SharedReceiveTotals = {
  slots: 0,
  postedSlots: 0,
  lentSlots: 0,
  connections: 0,
  lowWarnings: 0,
};

const DEFAULT_RESOLVE_TIMEOUT_MS = 10_000;
/** With the default slots, 201 MiB of pinned memory for peers of which nothing is known. */
const DEFAULT_MAX_HANDSHAKES = 256;

const NOTICE_LEVELS: Readonly<Record<string, 'info' | 'warn' | 'error'>> = {
  removed: 'error',
  'device-fatal': 'error',
  'port-error': 'warn',
  'port-active': 'info',
};

/**
 * Messages over RDMA verbs, on InfiniBand, RoCE and iWARP alike. Connections are made by rdma_cm, which takes IP
 * addresses. Import and construction work on every machine; `probe()` says whether RDMA does, and why not.
 */
export class RdmaTransport extends Transport<RdmaListenOptions, RdmaConnectOptions, RdmaDetails> {
  override readonly kind = 'rdma';
  override readonly schemes = ['rdma'] as const;
  readonly #rdmaOptions;
  #engine: RdmaEngine | undefined;
  /** Ends the waits for probes, which last as long as a driver wants. */
  #probing = new AbortController();

  constructor(options: RdmaTransportOptions = {}) {
    super(withRdmaDefaults(options));
    this.#rdmaOptions = resolveRdmaOptions(options);
  }

  override get namesHardware(): boolean {
    return this.#rdmaOptions.device !== undefined || this.#rdmaOptions.localAddress !== undefined;
  }

  /** As {@link probeRdma}: the event loop goes on, however long a driver takes. What has not when this is closed is `unanswered`. */
  override async probe(): Promise<ProbeResult<RdmaDetails>> {
    const { libraries, device, localAddress } = this.#rdmaOptions;
    const { signal } = this.#probing;
    return await probeRdma({ libraries, slots: this.#rdmaOptions, device, localAddress, signal });
  }

  override stats(): RdmaTransportStats {
    const stats = super.stats(); // first: it takes note of what has come free
    const { bytes, regions } = this.#engine?.native.memoryTotals() ?? { bytes: 0, regions: 0 };
    const shared =
      this.#rdmaOptions.sharedReceiveQueue === undefined
        ? undefined
        : (this.#engine?.native.sharedReceiveTotals() ?? NOTHING_SHARED);
    const memory = this.#engine?.poolMemory;
    return {
      ...stats,
      registeredBytes: bytes,
      registeredRegions: regions,
      largeMemoryInBytes: memory?.usedBytes('in') ?? 0,
      largeMemoryOutBytes: memory?.usedBytes('out') ?? 0,
      idleMemoryBytes: memory?.idleBytes ?? 0,
      ...(shared === undefined ? {} : { sharedReceiveQueue: shared }),
    };
  }

  protected override async _listen(request: ListenRequest<RdmaListenOptions>): Promise<Listener> {
    const { host, port } = hostOf(request.address);
    const { maxHandshakes = DEFAULT_MAX_HANDSHAKES } = request.options;
    checkInteger('maxHandshakes', maxHandshakes, 1, Number.MAX_SAFE_INTEGER);
    const where = `cannot listen on ${host} port ${port}`;
    const resolved = resolveHost(host, (error) => toListenError(error, where));
    const [address] = await unlessAborted(resolved, request.signal); // the resolver takes its time, and cannot be told to stop
    const engine = this.#open();
    try {
      const handle = engine.native.listen({
        host: address as string,
        port,
        backlog: this.#rdmaOptions.backlog,
      });
      const bound = { host, port: engine.native.listenerAddress(handle).port };
      return new RdmaListener({
        kind: this.kind,
        address: bound,
        url: formatAddress('rdma', bound),
        logger: this._options.logger,
        engine,
        handle,
        options: request.connectionOptions,
        maxHandshakes,
        opened: (connection) => this._opened(connection),
      });
    } catch (error) {
      throw toListenError(error, where);
    }
  }

  protected override async _connect(attempt: ConnectAttempt<RdmaConnectOptions>): Promise<Connection> {
    const { host, port } = hostOf(attempt.address);
    checkLocalAddress(attempt.options.localAddress);
    const resolved = resolveHost(host, (error) =>
      toConnectError(error, `cannot connect to ${host} port ${port}`),
    );
    const hosts = await unlessAborted(resolved, attempt.signal);
    const engine = this.#open();
    let failure: unknown;
    for (const each of hosts) {
      attempt.signal.throwIfAborted();
      try {
        const connection = await connectOnce({
          engine,
          host: each,
          port,
          localHost: attempt.options.localAddress ?? this.#rdmaOptions.localAddress,
          timeoutMs: attempt.options.timeoutMs ?? DEFAULT_RESOLVE_TIMEOUT_MS,
          options: attempt.connectionOptions,
          signal: attempt.signal,
          opened: (connection) => this._opened(connection),
        });
        refuseOtherDevice(connection, this.#rdmaOptions.device);
        return connection;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  protected override async _close(): Promise<void> {
    this.#probing.abort();
    this.#probing = new AbortController();
    this.#engine?.close();
    this.#engine = undefined;
  }

  #open(): RdmaEngine {
    if (this.#engine !== undefined) return this.#engine;
    const loaded = loadAddon();
    if (loaded.addon === undefined) {
      throw new VerbmqError('ERR_VERBMQ_UNAVAILABLE', `${loaded.reason}; ${loaded.remedy}`, {
        reason: 'addon-missing',
      });
    }
    try {
      this.#engine = new RdmaEngine(loaded.addon, this.#rdmaOptions, (notice) => this.#noticed(notice));
    } catch (error) {
      throw toVerbmqError(error, 'RDMA cannot be used here');
    }
    return this.#engine;
  }

  /** A port that is down ends nothing by itself, but says why a connection will; the rest is for the curious. */
  #noticed(notice: DeviceNotice): void {
    const level = NOTICE_LEVELS[notice.event] ?? 'debug';
    this._options.logger[level]({ ...notice }, `RDMA device ${notice.device}: ${notice.event}`);
    if (channels.deviceNotice.hasSubscribers) channels.deviceNotice.publish({ transport: this, ...notice });
  }
}

function hostOf(address: ResolvedAddress): { host: string; port: number } {
  if (!isPathAddress(address)) return address;
  throw new VerbmqError(
    'ERR_VERBMQ_INVALID_ADDRESS',
    'RDMA connections are made to {host, port}, not to a path',
  );
}

/** The IP addresses of a host, in the resolver's order. */
async function resolveHost(host: string, failed: (error: unknown) => VerbmqError): Promise<string[]> {
  if (isIP(host.replace(/%.*$/, '')) !== 0) return [host];
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw failed({ reason: 'unreachable', message: `the host name cannot be resolved: ${message}` });
  }
}
