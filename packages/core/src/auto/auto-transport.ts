import { formatAddress, type Scheme } from '../contract/address.js';
import type { Connection } from '../contract/connection.js';
import { isVerbmqError } from '../contract/errors.js';
import type { Listener } from '../contract/listener.js';
import { describe, MAX_TIMER_MS, type ResolvedConnectionOptions } from '../contract/options.js';
import {
  type ConnectAttempt,
  type ConnectOptions,
  type ListenOptions,
  type ListenRequest,
  type ProbeResult,
  Transport,
} from '../contract/transport.js';
import { nextTurn } from '../transport-kit/next-turn.js';
import { unlessAborted } from '../transport-kit/unless-aborted.js';
import { AutoConnection, MIN_FRAME_PAYLOAD_BYTES } from './auto-connection.js';
import { AutoListener } from './auto-listener.js';
import { addressBelow, optionsBelow, optionsOfFast } from './below.js';
import { ClientRole } from './client-role.js';
import { encryptionReason, FastAvailability, requiredError } from './fast-availability.js';
import { FastServer } from './fast-server.js';
import { HEADER_BYTES, protocolError } from './frames.js';
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
const NEVER_MS = MAX_TIMER_MS;

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
  readonly #availability: FastAvailability;

  constructor(options: AutoTransportOptions<L, C>) {
    super(options);
    checkTransport('base', options.base);
    if (options.fast !== undefined) checkTransport('fast', options.fast);
    this.#base = options.base;
    this.#fast = options.fast;
    this.#availability = new FastAvailability(options.fast);
    this.#options = resolveAutoOptions(options);
    this.schemes = ['verbmq', ...options.base.schemes];
  }

  async probe(): Promise<ProbeResult<AutoDetails>> {
    const [base, fast] = await Promise.all([this.#base.probe(), this.#fast?.probe()]);
    return base.available ? { available: true, details: { base, fast } } : base;
  }

  protected override async _listen(request: ListenRequest<L & AutoOptions>): Promise<AutoListener> {
    const { connectionOptions, signal } = request;
    const options = resolveAutoOptions(request.options, this.#options);
    // What is given up here, the transports below end: they are closed next.
    const listening = this.#base.listen(addressBelow(request.address), {
      ...request.options,
      ...optionsBelow(connectionOptions),
      maxHandshakes: options.maxHandshakes,
    });
    const base = await unlessAborted(listening, signal);
    let fast: FastServer | string;
    try {
      fast = await unlessAborted(this.#listenFast(base, options, connectionOptions), signal);
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
    const availability = this.#availability.find(options);
    const isRequired = options.policy === 'require-rdma';
    // What is known at once is said in the hello. What takes longer is found out while messages flow on the base, unless they may not, or it
    // may be that the options name what is not there.
    const waits = isRequired || this.#fast?.namesHardware === true;
    const first = waits ? availability.found : Promise.race([availability.found, nextTurn()]);
    await unlessAborted(first, signal);
    if (availability.misnamed !== undefined) throw availability.misnamed;
    if (isRequired && availability.reason !== undefined) throw requiredError(availability.reason, undefined);
    const greet = async (
      until: AbortSignal,
      resume?: Hello['resume'],
      longestBytes?: number,
    ): Promise<{ base: Connection; fastReason: string | undefined; welcome: Welcome }> => {
      const base = await dial(until);
      const fastReason = availability.reason ?? encryptionReason(base.kind, options);
      if (isRequired && fastReason !== undefined) {
        base.abort('the fast path is required and may not be used');
        throw requiredError(fastReason, undefined);
      }
      const hello: Hello = {
        maxMessageBytes: connectionOptions.maxMessageBytes,
        windowBytes: options.windowBytes,
        nonce: randomName(),
        fastReason,
        fastRequired: isRequired,
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
    const requiresFast = isRequired || welcome.fastRequired;
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
          fastAvailable: availability.known && (fastReason ?? availability.reason) === undefined,
          probeFast: () => this.#availability.probe(options.minFastRetryMs),
          fastOptions: optionsOfFast(options, connectionOptions),
          frameBytes: HEADER_BYTES + Math.max(MIN_FRAME_PAYLOAD_BYTES, maxMessageBytes),
          attemptTimeoutMs: connectionOptions.handshakeTimeoutMs,
        });
        return role;
      },
    });
    this._opened(connection);
    void availability.found.then(() => {
      if (availability.misnamed !== undefined && connection.state === 'open')
        connection.fail(availability.misnamed);
    });
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
    const availability = this.#availability.find(options);
    await availability.found;
    if (availability.misnamed !== undefined) throw availability.misnamed;
    const addresses = options.fastAddresses ?? ('host' in base ? [{ host: base.host, port: 0 }] : []);
    if (addresses.length === 0) return 'not-configured';
    const server = new FastServer({
      fast: this.#fast,
      addresses,
      options: {
        ...optionsOfFast(options, connectionOptions),
        maxHandshakes: Math.min(options.maxHandshakes, MAX_FAST_HANDSHAKES),
      },
      timeoutMs: connectionOptions.handshakeTimeoutMs,
      retryMs: options.minFastRetryMs,
      refused: (error, ofSession) =>
        connectionOptions.logger[ofSession ? 'debug' : 'warn']({ err: error }, 'a fast path was refused'),
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
}

/** @throws TypeError */
function checkTransport(name: string, transport: Partial<Transport> | null | undefined): void {
  if (typeof transport?.connect !== 'function')
    throw new TypeError(`${name} must be a transport, not ${describe(transport)}`);
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
