import { formatAddress, type HostAddress, type PathAddress } from '../contract/address.js';
import type { Capabilities } from '../contract/capabilities.js';
import { VerbmqError } from '../contract/errors.js';
import { type ConnectionOptions, checkInteger } from '../contract/options.js';
import {
  type ConnectAttempt,
  type ConnectOptions,
  type ListenOptions,
  type ListenRequest,
  type ProbeResult,
  Transport,
} from '../contract/transport.js';
import { nextTurn } from '../transport-kit/next-turn.js';
import type { Window } from './credits.js';
import type { MemoryFaults } from './faults.js';
import { MemoryConnection } from './memory-connection.js';
import { MemoryListener, type Side } from './memory-listener.js';
import { type MemoryNetwork, nameOf } from './network.js';

/** Defaults for all connections of a transport, and what is particular to this one. */
export interface MemoryTransportOptions extends ConnectionOptions {
  /** Reaches the transports that were given the same one. */
  readonly network: MemoryNetwork;
  readonly faults?: MemoryFaults;
  /** Bytes that a peer may have under way to this side while its application does not read. Default 1 MiB. */
  readonly windowBytes?: number;
  /** The same in messages. Default 256. */
  readonly windowMessages?: number;
  /** Whether this side's end of a connection has one-sided memory. Default true. */
  readonly oneSided?: boolean;
}

/**
 * A transport whose two ends are in one process, for tests: of programs that use verbmq, and of verbmq itself. It keeps the
 * whole contract, delivers in later turns of the event loop and never within a call, and fails on demand.
 *
 * Addresses are `memory://name`, `{ path: name }` or `{ host, port }`, all of them only names within the network.
 */
export class MemoryTransport extends Transport {
  readonly kind = 'memory';
  readonly schemes = ['memory'] as const;
  readonly #network: MemoryNetwork;
  readonly #faults: MemoryFaults;
  readonly #window: Window;
  readonly #capabilities: Capabilities;

  constructor(options: MemoryTransportOptions) {
    super(options);
    this.#network = options.network;
    this.#faults = options.faults ?? {};
    this.#capabilities = (options.oneSided ?? true) ? CAPABILITIES : WITHOUT_MEMORY;
    this.#window = {
      bytes: checkInteger('windowBytes', options.windowBytes ?? 1024 * 1024, 1, Number.MAX_SAFE_INTEGER),
      messages: checkInteger('windowMessages', options.windowMessages ?? 256, 1, Number.MAX_SAFE_INTEGER),
    };
  }

  async probe(): Promise<ProbeResult<Record<string, never>>> {
    return { available: true, details: {} };
  }

  protected override async _listen(request: ListenRequest<ListenOptions>): Promise<MemoryListener> {
    const address = this.#network.resolve(request.address);
    return new MemoryListener({
      kind: this.kind,
      address,
      url: formatAddress('memory', address),
      logger: request.connectionOptions.logger,
      network: this.#network,
      side: this.#side(request),
      opened: (connection) => this._opened(connection),
    });
  }

  protected override async _connect(attempt: ConnectAttempt<ConnectOptions>): Promise<MemoryConnection> {
    const { address, signal } = attempt;
    const verdict = this.#faults.connect?.(address) ?? 'accept';
    await nextTurn();
    signal.throwIfAborted();
    if (verdict === 'ignore') return aborted(signal);
    const listener = verdict === 'refuse' ? undefined : this.#network.find(address);
    if (listener === undefined) {
      throw new VerbmqError(
        'ERR_VERBMQ_CONNECT_FAILED',
        `cannot connect to ${nameOf(address)}: nobody listens there in this network`,
      );
    }
    const remoteAddress = listener.address;
    const near = pair(this.#side(attempt), listener, { path: `connection-${++clients}` }, remoteAddress);
    if (verdict === 'lose') {
      near.lose();
      throw new VerbmqError(
        'ERR_VERBMQ_CONNECT_FAILED',
        `cannot connect to ${nameOf(address)}: the connection was lost by an injected fault`,
      );
    }
    this._opened(near);
    return near;
  }

  #side(request: { connectionOptions: Side['options'] }): Side {
    return {
      options: request.connectionOptions,
      faults: this.#faults,
      window: this.#window,
      capabilities: this.#capabilities,
    };
  }
}

const CAPABILITIES = {
  oneSided: 'emulated',
  atomics: 'emulated',
  largeMessages: 'native',
  zeroCopySend: 'native',
} as const;

const WITHOUT_MEMORY = { ...CAPABILITIES, oneSided: 'none', atomics: 'none' } as const;

let clients = 0;

/** Makes both ends, gives the far one to the listener, and answers with the near one. */
function pair(
  side: Side,
  listener: MemoryListener,
  clientAddress: PathAddress,
  serverAddress: HostAddress | PathAddress,
): MemoryConnection {
  const maxMessageBytes = Math.min(side.options.maxMessageBytes, listener.side.options.maxMessageBytes);
  const near = new MemoryConnection({
    ...side,
    direction: 'out',
    maxMessageBytes,
    localAddress: clientAddress,
    remoteAddress: serverAddress,
    peerWindow: listener.side.window,
  });
  const far = new MemoryConnection({
    ...listener.side,
    direction: 'in',
    maxMessageBytes,
    localAddress: serverAddress,
    remoteAddress: clientAddress,
    peerWindow: side.window,
  });
  MemoryConnection.join(near, far);
  listener.incoming(far);
  return near;
}

/** Rejects when the attempt is given up, and only then. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
