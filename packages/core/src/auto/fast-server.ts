import { randomBytes } from 'node:crypto';
import { type HostAddress, isPathAddress } from '../contract/address.js';
import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import type { Listener } from '../contract/listener.js';
import type { ListenOptions, Transport } from '../contract/transport.js';
import { sameSecret } from './authentication.js';
import { randomName } from './hello.js';
import { KEY_BYTES, type PathSecret, proofText } from './proof.js';
import { type Claim, type Claimant, ServerProof } from './server-proof.js';
import type { PathNumber } from './session.js';

export interface FastServerInit {
  readonly fast: Transport;
  readonly addresses: readonly HostAddress[];
  /** `maxHandshakes` bounds the proofs as well. */
  readonly options: ListenOptions & { readonly maxHandshakes: number };
  /** How long a token is good, and how long a proof may take. */
  readonly timeoutMs: number;
  /** When it could not listen, it does not try again for so long. */
  readonly retryMs: number;
  /** @param ofSession whether it is the attempt of a session, which tells of it as of any other that failed */
  readonly refused: (error: VerbmqError, ofSession: boolean) => void;
}

/** The server's end of fast paths: it listens, gives out tokens, and proves what comes with one. */
export class FastServer {
  readonly #init: FastServerInit;
  #listeners: readonly Listener[] = [];
  #listening: Promise<void> | undefined;
  /** Settles when those that are being opened are open, or given back. */
  #opening: Promise<void> | undefined;
  /** All that hold an address, also such as are being given back. */
  readonly #held = new Set<Listener>();
  #closed = false;
  #failure: { readonly at: number; readonly error: unknown } | undefined;
  readonly #claims = new Map<string, Claim>();
  readonly #byClaimant = new Map<Claimant, Claim>();
  readonly #proofs = new Set<ServerProof>();
  /** Those of them in which a token was spent, by whose it was: each claimant has one attempt at a time. */
  readonly #proving = new Map<Claimant, ServerProof>();

  constructor(init: FastServerInit) {
    this.#init = init;
  }

  /**
   * Listens on every address, if it does not: a device that goes takes its listeners with it.
   * @throws `ERR_VERBMQ_UNAVAILABLE` where the transport's `probe` says so, and what its `listen` throws; then it listens on none.
   */
  listen(): Promise<void> {
    if (this.#closed) return Promise.reject(listenerClosed());
    if (this.#listeners.length > 0) return Promise.resolve();
    const failure = this.#failure;
    if (failure !== undefined && performance.now() - failure.at < this.#init.retryMs)
      return Promise.reject(failure.error);
    this.#listening ??= this.#listenOnAll().finally(() => {
      this.#listening = undefined;
    });
    return this.#listening;
  }

  /** Why it does not listen, where it was tried and failed. */
  get reason(): string | undefined {
    return this.#failure === undefined ? undefined : fastReasonOf(this.#failure.error);
  }

  /** Where the peer is to connect; without a host where that is the one that it has reached this side at. */
  get addresses(): { readonly host?: string; readonly port: number }[] {
    return this.#listeners
      .map(({ address }) => address)
      .filter((address): address is HostAddress => !isPathAddress(address))
      .map(({ host, port }) => (isWildcard(host) ? { port } : { host, port }));
  }

  /** A token for one fast connection of a session. It ends the attempt for which the same claimant had one before. */
  grant(claimant: Claimant, session: string, number: PathNumber): PathSecret {
    this.forget(claimant);
    const key = randomBytes(KEY_BYTES).toString('base64url');
    const secret = { session, number, token: randomName(), key };
    const timer = setTimeout(() => this.forget(claimant), this.#init.timeoutMs);
    timer.unref();
    const claim = { secret, claimant, timer };
    this.#claims.set(secret.token, claim);
    this.#byClaimant.set(claimant, claim);
    return secret;
  }

  /**
   * Its token is worth nothing any more, and what was begun with one ends: a proof that is completed late would take the place of a path that
   * was granted and proved after it.
   */
  forget(claimant: Claimant): void {
    const claim = this.#byClaimant.get(claimant);
    if (claim !== undefined) this.#spend(claim);
    this.#proving.get(claimant)?.end('the attempt that it belongs to is over');
  }

  #spend({ timer, secret, claimant }: Claim): void {
    clearTimeout(timer);
    this.#claims.delete(secret.token);
    this.#byClaimant.delete(claimant);
  }

  /** Resolves when no address is held any more; also those that were being opened are given back. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const proof of this.#proofs) proof.end('the listener is closing');
    for (const claimant of [...this.#byClaimant.keys()]) this.forget(claimant);
    await this.#opening?.catch(() => {}); // who listens is told
    await this.#stopListening(this.#held);
  }

  async #listenOnAll(): Promise<void> {
    try {
      const probe = await this.#init.fast.probe();
      if (!probe.available)
        throw new VerbmqError('ERR_VERBMQ_UNAVAILABLE', `${probe.reason}: ${probe.remedy}`, {
          reason: probe.code,
        });
      this.#assertOpen(); // `close` does not wait for a probe, which may take long
      this.#opening = this.#openAll();
      await this.#opening;
      this.#failure = undefined;
    } catch (error) {
      this.#failure = { at: performance.now(), error };
      throw error;
    }
  }

  async #openAll(): Promise<void> {
    const { fast, addresses, options } = this.#init;
    const listeners: Listener[] = [];
    let lost = false;
    try {
      for (const address of addresses) {
        const listener = await fast.listen(address, options);
        listeners.push(listener);
        this.#held.add(listener);
        listener.onConnection((connection) => this.#incoming(connection));
        void listener.closed.then(() => {
          lost = true;
          this.#held.delete(listener);
          this.#ended(listener);
        });
        this.#assertOpen();
      }
      if (lost)
        throw new VerbmqError(
          'ERR_VERBMQ_LISTEN_FAILED',
          'an address of the fast transport was lost while the next one was being opened: listen again',
        );
      this.#listeners = listeners;
    } catch (error) {
      await this.#stopListening(listeners);
      throw error;
    }
  }

  /** @throws VerbmqError `ERR_VERBMQ_CLOSED` */
  #assertOpen(): void {
    if (this.#closed) throw listenerClosed();
  }

  /** One that has ended by itself takes the others with it: all of them are listened on again when the next peer asks. */
  #ended(listener: Listener): void {
    if (!this.#listeners.includes(listener)) return;
    const listeners = this.#listeners;
    this.#listeners = [];
    void this.#stopListening(listeners);
  }

  async #stopListening(listeners: Iterable<Listener>): Promise<void> {
    await Promise.all([...listeners].map((listener) => listener.close()));
  }

  #incoming(connection: Connection): void {
    const { options, timeoutMs, refused } = this.#init;
    if (this.#closed) {
      connection.abort('the listener is closing');
      return;
    }
    if (this.#proofs.size >= options.maxHandshakes) {
      connection.abort('too many paths are being proved');
      refused(new VerbmqError('ERR_VERBMQ_OVERLOADED', 'too many fast paths are being proved'), false);
      return;
    }
    const proof = new ServerProof(connection, timeoutMs, {
      claim: (token, shown) => {
        const claim = this.#claims.get(token);
        // Who heard the token, and no more, does not spend it.
        if (claim === undefined || !sameSecret(proofText(claim.secret, 'client'), shown)) return undefined;
        this.#spend(claim);
        this.#proving.set(claim.claimant, proof);
        return claim;
      },
      ended: (error, claim) => {
        this.#proofs.delete(proof);
        if (claim !== undefined) this.#proving.delete(claim.claimant);
        if (error !== undefined) refused(error, claim !== undefined);
      },
    });
    this.#proofs.add(proof);
  }
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}

/** Its sessions live on, and have no other way to a fast path. */
function listenerClosed(): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_CLOSED', 'the listener was closed', { reason: 'listener-closed' });
}

/** Why there is no fast path, where this came of `listen`. */
export function fastReasonOf(error: unknown): string {
  return error instanceof VerbmqError ? (error.reason ?? 'listen-failed') : 'listen-failed';
}
