import { VerbmqError } from './errors.js';

/** `closing`: the end has begun; nothing new is accepted, and in an orderly end what was accepted is delivered. */
export type ConnectionState = 'open' | 'closing' | 'closed';

/** How a connection ended. */
export interface CloseInfo {
  /** Everything that both sides had accepted was delivered. */
  readonly graceful: boolean;
  /** Who ended it. A connection that was lost was ended by `'remote'`. */
  readonly initiator: 'local' | 'remote';
  /** Why it was not graceful. */
  readonly error?: VerbmqError;
}

/** What the end of a connection sets going; see the hooks of the same names in `Connection`. */
export interface LifecycleHooks {
  /** Whether sends or operations that were accepted have still to go before the close may. */
  busy(): boolean;
  /** The state is not `open` any more. May be called again. */
  over(): void;
  sendClose(): void;
  teardown(): void;
  kill(error: VerbmqError, reasonForPeer: string | undefined): void;
  ended(info: CloseInfo): void;
}

/**
 * The states of a connection and the two ways out of `open`.
 *
 * In order: one side begins; each side says close when all that it had accepted is on its way; when both have said
 * it, the transport is torn down. Not in order: the first failure decides how the connection ended, and the transport
 * is killed. Either way it is `closed` when the transport has finished.
 */
export class Lifecycle {
  readonly #hooks: LifecycleHooks;
  readonly #closeTimeoutMs: number;
  #state: ConnectionState = 'open';
  /** Read-only; a field, for it is asked for with each message: whether the state is not `open` any more. */
  over = false;
  /** Likewise: whether nothing goes on any more, because it has failed or has ended. */
  decided = false;
  /** Set once it is certain how the connection ends. */
  #info: CloseInfo | undefined;
  #closedBy: 'local' | 'remote' = 'local';
  #closeSent = false;
  #peerClosed = false;
  #tearingDown = false;
  #timer: NodeJS.Timeout | undefined;
  #resolveEnding!: (info: CloseInfo) => void;
  #resolveClosed!: (info: CloseInfo) => void;
  /** Resolves, never rejects, when it is certain how the connection ends. */
  readonly ending: Promise<CloseInfo> = new Promise((resolve) => {
    this.#resolveEnding = resolve;
  });
  /** Resolves, never rejects, when the state is `closed`. */
  readonly closed: Promise<CloseInfo> = new Promise((resolve) => {
    this.#resolveClosed = resolve;
  });

  constructor(closeTimeoutMs: number, hooks: LifecycleHooks) {
    this.#closeTimeoutMs = closeTimeoutMs;
    this.#hooks = hooks;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** @throws VerbmqError `ERR_VERBMQ_CLOSED` unless the connection is open. */
  assertOpen(what: string): void {
    if (this.over) throw this.closedError(what);
  }

  closedError(what: string): VerbmqError {
    const why = this.#info?.error;
    const state =
      this.#state === 'closed'
        ? 'has ended'
        : this.#peerClosed
          ? 'is being closed by the peer'
          : 'is closing';
    return new VerbmqError(
      'ERR_VERBMQ_CLOSED',
      `${what}: the connection ${state}${why === undefined ? '' : ` (${why.message})`}; connect again`,
      { cause: why },
    );
  }

  beginClose(by: 'local' | 'remote'): void {
    if (this.over) return;
    this.#state = 'closing';
    this.over = true;
    this.#hooks.over();
    this.#closedBy = by;
    this.#timer = setTimeout(() => {
      const what = by === 'local' ? 'close()' : "the peer's close";
      this.fail(
        new VerbmqError(
          'ERR_VERBMQ_CLOSE_TIMEOUT',
          `${what} could not deliver everything within ${this.#closeTimeoutMs} ms`,
        ),
        by,
        'the orderly close took too long',
      );
    }, this.#closeTimeoutMs);
    this.progressed();
  }

  /** The peer has said close. */
  peerClosed(): void {
    this.#peerClosed = true;
    this.beginClose('remote');
    this.#maybeTeardown();
  }

  get peerHasClosed(): boolean {
    return this.#peerClosed;
  }

  /** Something that was accepted has gone: perhaps it was the last thing before the close. */
  progressed(): void {
    if (this.#state !== 'closing' || this.#closeSent || this.decided || this.#hooks.busy()) return;
    this.#closeSent = true;
    this.#hooks.sendClose();
    this.#maybeTeardown();
  }

  /** All that both sides had accepted is delivered: it ends in order, however long it takes the transport to give everything back. */
  delivered(): void {
    if (this.#info !== undefined) return;
    this.#info = { graceful: true, initiator: this.#closedBy };
    clearTimeout(this.#timer);
    this.#resolveEnding(this.#info);
  }

  /** The first failure counts, unless all is delivered. Answers whether this was it. */
  fail(error: VerbmqError, initiator: 'local' | 'remote', reasonForPeer: string | undefined): boolean {
    if (this.#info !== undefined) return false;
    this.#info = { graceful: false, initiator, error };
    this.#state = 'closing';
    this.over = true;
    this.decided = true;
    this.#hooks.over();
    clearTimeout(this.#timer);
    try {
      this.#hooks.kill(error, reasonForPeer);
    } finally {
      this.#resolveEnding(this.#info);
    }
    return true;
  }

  /** The transport holds nothing any more. */
  finished(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.over = true;
    this.decided = true;
    this.#hooks.over();
    clearTimeout(this.#timer);
    this.#info ??= { graceful: true, initiator: this.#closedBy };
    try {
      this.#hooks.ended(this.#info);
    } finally {
      this.#resolveEnding(this.#info);
      this.#resolveClosed(this.#info);
    }
  }

  #maybeTeardown(): void {
    if (!this.#closeSent || !this.#peerClosed || this.#tearingDown || this.decided) return;
    this.#tearingDown = true;
    this.#hooks.teardown();
  }
}
