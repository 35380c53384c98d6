// Longer than 300 lines because an attempt to connect is told from its first address to its last fallback, with nothing in between elsewhere.
import { formatAddress, type HostAddress, type PathAddress, type Scheme } from '../contract/address.js';
import type { Connection } from '../contract/connection.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import type { Listener } from '../contract/listener.js';
import { MAX_MESSAGE_BYTES_LIMIT, type ResolvedConnectionOptions } from '../contract/options.js';
import {
  type ConnectAttempt,
  type ConnectOptions,
  type ListenOptions,
  type ListenRequest,
  type ProbeResult,
  Transport,
} from '../contract/transport.js';
import { AutoConnection, MIN_FRAME_PAYLOAD_BYTES } from './auto-connection.js';
import { AutoListener } from './auto-listener.js';
import { ClientRole } from './client-role.js';
import { FastServer } from './fast-server.js';
import { HEADER_BYTES, MAX_CONTROL_BYTES, protocolError } from './frames.js';
import { shakeHands } from './handshake.js';
import { assertCarries, type Hello, randomName, type Welcome } from './hello.js';
import { type AutoOptions, type ResolvedAutoOptions, resolveAutoOptions } from './options.js';
import { isDecision } from './path-info.js';

/** What an auto transport is made of, and the defaults for all of its connections. */
export interface AutoTransportOptions<
  L extends ListenOptions = ListenOptions,
  C extends ConnectOptions = ConnectOptions,
> extends AutoOptions {
  /** Carries everything at first, and whenever there is no fast path: TCP, TLS, Unix sockets. It is closed with this transport. */
  readonly base: Transport<L, C>;
  /** Carries the messages where both sides have it and it is proved: RDMA. Closed likewise. */
  readonly fast?: Transport | undefined;
}

/** What `probe()` says of the two transports. */
export interface AutoDetails {
  readonly base: ProbeResult;
  /** `undefined` where there is no fast transport. */
  readonly fast: ProbeResult | undefined;
}

/**
 * Fast connections that may be in their handshake, and as many in their proof: each holds the memory of an RDMA connection, for a peer of
 * which nothing is known.
 */
const MAX_FAST_HANDSHAKES = 256;

/** The longest time that Node's timers take; the attempt's own signal ends it before. */
const NEVER_MS = 2 ** 31 - 1;

/**
 * Connects with its base transport, and moves each connection to its fast transport where both sides can, while messages
 * are in flight; back when that breaks; and to a new base connection when the old one breaks. `listen` and `connect` take
 * the options of the base transport, and those of auto.
 */
export class AutoTransport<
  L extends ListenOptions = ListenOptions,
  C extends ConnectOptions = ConnectOptions,
> extends Transport<L & AutoOptions, C & AutoOptions, AutoDetails> {
  readonly kind = 'auto';
  readonly schemes: readonly Scheme[];
  readonly #base: Transport<L, C>;
  readonly #fast: Transport | undefined;
  readonly #options: ResolvedAutoOptions;
  /** The last probe of the fast transport for connections that wait for it. */
  #fastProbe: { readonly at: number; readonly result: Promise<ProbeResult> } | undefined;

  constructor(options: AutoTransportOptions<L, C>) {
    super(options);
    this.#base = options.base;
    this.#fast = options.fast;
    this.#options = resolveAutoOptions(options);
    this.schemes = ['verbmq', ...options.base.schemes];
  }

  async probe(): Promise<ProbeResult<AutoDetails>> {
    const [base, fast] = await Promise.all([this.#base.probe(), this.#fast?.probe()]);
    return base.available ? { available: true, details: { base, fast } } : base;
  }

  protected override async _listen(request: ListenRequest<L & AutoOptions>): Promise<AutoListener> {
    const { connectionOptions } = request;
    const options = resolveAutoOptions(request.options, this.#options);
    const base = await this.#base.listen(addressBelow(request.address), {
      ...request.options,
      ...optionsBelow(connectionOptions),
      maxHandshakes: options.maxHandshakes,
    });
    let fast: FastServer | string;
    try {
      fast = await this.#listenFast(base, options, connectionOptions);
    } catch (error) {
      await base.close();
      throw error;
    }
    return new AutoListener({
      kind: this.kind,
      address: base.address,
      url: 'path' in base.address ? base.url : formatAddress('verbmq', base.address),
      logger: connectionOptions.logger,
      base,
      fast: typeof fast === 'string' ? undefined : fast,
      fastReason: typeof fast === 'string' ? fast : undefined,
      options,
      connectionOptions,
      opened: (connection) => this._opened(connection),
    });
  }

  protected override async _connect(attempt: ConnectAttempt<C & AutoOptions>): Promise<Connection> {
    const { signal, connectionOptions } = attempt;
    const options = resolveAutoOptions(attempt.options, this.#options);
    const dial = (until: AbortSignal): Promise<Connection> => {
      return this.#base
        .connect(addressBelow(attempt.address), {
          ...attempt.options,
          ...optionsBelow(connectionOptions),
          signal: until,
          timeoutMs: NEVER_MS,
        })
        .catch((error: unknown) => {
          throw until.aborted ? until.reason : error;
        });
    };
    const unavailable = await this.#fastReason(options);
    if (options.policy === 'require-rdma' && unavailable !== undefined)
      throw requiredError(unavailable, undefined);
    const greet = async (
      until: AbortSignal,
      resume?: Hello['resume'],
      longestBytes?: number,
    ): Promise<{ base: Connection; fastReason: string | undefined; welcome: Welcome }> => {
      const base = await dial(until);
      const fastReason = unavailable ?? encryptionReason(base.kind, options);
      if (options.policy === 'require-rdma' && fastReason !== undefined) {
        base.abort('the fast path is required and may not be used');
        throw requiredError(fastReason, undefined);
      }
      const hello: Hello = {
        maxMessageBytes: connectionOptions.maxMessageBytes,
        windowBytes: options.windowBytes,
        nonce: randomName(),
        fastReason,
        fastRequired: options.policy === 'require-rdma',
        resume,
      };
      const { handshakeTimeoutMs } = connectionOptions;
      const welcome = await shakeHands(base, hello, options.preSharedKey, handshakeTimeoutMs, until);
      try {
        assertCarries(base, longestBytes);
        assertAnswers(welcome, resume);
      } catch (error) {
        base.abort(String(error));
        throw error;
      }
      return { base, fastReason, welcome };
    };

    const { base, fastReason, welcome } = await greet(signal);
    const maxMessageBytes = Math.min(
      connectionOptions.maxMessageBytes,
      welcome.maxMessageBytes,
      base.maxMessageBytes - HEADER_BYTES,
    );
    const peerReason = welcome.fastReason;
    const requiresFast = options.policy === 'require-rdma' || welcome.fastRequired;
    let role: ClientRole | undefined;
    const connection = new AutoConnection({
      base,
      direction: 'out',
      options: connectionOptions,
      maxMessageBytes,
      windowBytes: Math.min(options.windowBytes, welcome.windowBytes),
      localAddress: base.localAddress,
      remoteAddress: base.remoteAddress,
      reason: fastReason ?? (peerReason === undefined ? 'negotiating' : 'peer-declined'),
      peerReason,
      requiresFast,
      makeRole: (made) => {
        role = new ClientRole(made, {
          options,
          session: welcome.ticket.session,
          requiresFast,
          reconnect: async (until) => {
            const resume = { ...welcome.ticket, epoch: made.session.epoch };
            return (await greet(until, resume, maxMessageBytes)).base;
          },
          fast: isDecision(fastReason) || isDecision(peerReason) ? undefined : this.#fast,
          fastAvailable: fastReason === undefined,
          probeFast: () => this.#probeFastAgain(options.minFastRetryMs),
          fastOptions: this.#optionsOfFast(options, connectionOptions),
          frameBytes: HEADER_BYTES + Math.max(MIN_FRAME_PAYLOAD_BYTES, maxMessageBytes),
          attemptTimeoutMs: connectionOptions.handshakeTimeoutMs,
        });
        return role;
      },
    });
    this._opened(connection);
    if (fastReason === undefined && peerReason === undefined) role?.askForFast();
    else role?.askForFastLater();
    if (requiresFast && role !== undefined) await this.#requireFast(connection, role, peerReason, signal);
    return connection;
  }

  protected override async _close(): Promise<void> {
    await Promise.all([this.#base.close(), this.#fast?.close()]);
  }

  async #requireFast(
    connection: AutoConnection,
    role: ClientRole,
    peerReason: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const give = (): void => connection.abort('the attempt was given up');
    signal.addEventListener('abort', give);
    try {
      if (peerReason !== undefined) throw requiredError('peer-declined', undefined, peerReason);
      await role.firstFast().catch((error: unknown) => {
        throw signal.aborted ? signal.reason : requiredError(connection.path.reason ?? 'broken', error);
      });
    } catch (error) {
      connection.abort('the fast path is required and cannot be had');
      await connection.closed;
      throw error;
    } finally {
      signal.removeEventListener('abort', give);
    }
  }

  /** Why this side cannot use a fast path; `undefined` where it can. @throws where its options name what is not there. */
  async #fastReason({ policy, minFastRetryMs }: ResolvedAutoOptions): Promise<string | undefined> {
    if (policy === 'tcp') return 'policy';
    if (this.#fast === undefined) return 'not-configured';
    const probe = await this.#probeFastAgain(policy === 'require-rdma' ? 0 : minFastRetryMs);
    if (probe.available) return undefined;
    if (probe.misnamed)
      throw new VerbmqError('ERR_VERBMQ_UNAVAILABLE', `${probe.reason}; ${probe.remedy}`, {
        reason: probe.code,
      });
    return probe.code;
  }

  /** What `probe` of the fast transport says, or said so little ago: it opens devices, and connections ask together. */
  #probeFastAgain(maxAgeMs: number): Promise<ProbeResult> {
    const now = performance.now();
    if (this.#fastProbe === undefined || now - this.#fastProbe.at > maxAgeMs)
      this.#fastProbe = { at: now, result: (this.#fast as Transport).probe() };
    return this.#fastProbe.result;
  }

  /** Listens for fast connections, or says why not. @throws where addresses were named or the policy requires it. */
  async #listenFast(
    { address: base, kind }: Listener,
    options: ResolvedAutoOptions,
    connectionOptions: ResolvedConnectionOptions,
  ): Promise<FastServer | string> {
    const required = options.policy === 'require-rdma';
    if (options.policy === 'tcp') return 'policy';
    const named = options.fastAddresses !== undefined;
    if (this.#fast === undefined) {
      if (required || named) throw requiredError('not-configured', undefined);
      return 'not-configured';
    }
    const encrypted = encryptionReason(kind, options);
    if (encrypted !== undefined) {
      if (required || named) throw requiredError(encrypted, undefined);
      return encrypted;
    }
    await this.#fastReason(options);
    const addresses = options.fastAddresses ?? ('host' in base ? [{ host: base.host, port: 0 }] : []);
    if (addresses.length === 0) return 'not-configured';
    const server = new FastServer({
      fast: this.#fast,
      addresses,
      options: {
        ...this.#optionsOfFast(options, connectionOptions),
        maxHandshakes: Math.min(options.maxHandshakes, MAX_FAST_HANDSHAKES),
      },
      timeoutMs: connectionOptions.handshakeTimeoutMs,
      retryMs: options.minFastRetryMs,
      refused: (error) => connectionOptions.logger.warn({ err: error }, 'a fast path was refused'),
    });
    try {
      await server.listen();
    } catch (error) {
      if (required || named) {
        const unavailable = isVerbmqError(error) && error.code === 'ERR_VERBMQ_UNAVAILABLE';
        throw unavailable ? requiredError(error.reason ?? 'unavailable', error) : error;
      }
    }
    return server; // which listens when it can, and a client asks again
  }

  /** A fast connection is given up sooner than others: there is something to fall back to. */
  #optionsOfFast(
    { fastTimeoutMs }: ResolvedAutoOptions,
    connectionOptions: ResolvedConnectionOptions,
  ): ConnectOptions {
    return {
      ...optionsBelow(connectionOptions),
      heartbeatIntervalMs: Math.ceil(fastTimeoutMs / 4),
      peerTimeoutMs: fastTimeoutMs,
      timeoutMs: connectionOptions.handshakeTimeoutMs,
    };
  }
}

/** The address for the base transport: without the scheme that only this transport knows. */
function addressBelow({
  scheme,
  ...address
}: (HostAddress | PathAddress) & { scheme?: Scheme }): string | HostAddress | PathAddress {
  return scheme === undefined || scheme === 'verbmq' ? address : formatAddress(scheme, address);
}

/**
 * What the connections below are given: room for the header, and for the frames of the negotiation; and for nothing longer than those
 * until the peer has shown who it is.
 */
function optionsBelow(options: ResolvedConnectionOptions): ResolvedConnectionOptions {
  const longest = Math.max(options.maxMessageBytes, MAX_CONTROL_BYTES) + HEADER_BYTES;
  return {
    ...options,
    maxMessageBytes: Math.min(longest, MAX_MESSAGE_BYTES_LIMIT),
    maxGreetingBytes: MAX_CONTROL_BYTES,
    debugLeases: false,
    inner: true,
  };
}

/** Whoever asked for encryption is not taken off it unless both sides said that they may be. */
function encryptionReason(
  baseKind: string,
  { unencryptedFastPath }: ResolvedAutoOptions,
): 'encrypted' | undefined {
  return baseKind === 'tls' && !unencryptedFastPath ? 'encrypted' : undefined;
}

function requiredError(reason: string, cause: unknown, peerReason?: string): VerbmqError {
  const whose = peerReason === undefined ? '' : `: the peer says ${peerReason}`;
  const remedy =
    (peerReason ?? reason) === 'encrypted'
      ? '; it is not encrypted as the base connection is: both sides may set unencryptedFastPath'
      : '';
  return new VerbmqError(
    'ERR_VERBMQ_UNAVAILABLE',
    `the fast path is required (by the policy of a side, or by fastAddresses) and cannot be had (${reason}${whose})${remedy}`,
    { cause, reason },
  );
}

/** A server that opens another session instead of resuming one, or the other way round, has not understood. */
function assertAnswers({ resumed }: Welcome, resume: Hello['resume']): void {
  if (resumed === (resume !== undefined)) return;
  throw protocolError(
    resumed
      ? 'it resumed a session where a new one was asked for'
      : 'it opened another session instead of resuming this one',
  );
}
