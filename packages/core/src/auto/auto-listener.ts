import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { Listener, type ListenerInit } from '../contract/listener.js';
import type { ResolvedConnectionOptions } from '../contract/options.js';
import type { ListenerStats } from '../contract/stats.js';
import { sameSecret } from './authentication.js';
import { AutoConnection } from './auto-connection.js';
import type { FastServer } from './fast-server.js';
import { HEADER_BYTES } from './frames.js';
import { Greeting, Refusal } from './greeting.js';
import { assertCarries, type Hello, makeTicket, type Ticket } from './hello.js';
import type { ResolvedAutoOptions } from './options.js';
import { type ServerHome, ServerRole } from './server-role.js';
import { originOf, SuspendedSessions } from './suspended-sessions.js';

export interface AutoListenerInit extends ListenerInit {
  readonly base: Listener;
  readonly fast: FastServer | undefined;
  /** Why there is no fast path. */
  readonly fastReason: string | undefined;
  readonly options: ResolvedAutoOptions;
  readonly connectionOptions: ResolvedConnectionOptions;
  readonly opened: (connection: AutoConnection) => void;
}

interface Entry {
  readonly ticket: Ticket;
  readonly role: ServerRole;
}

/** Connections that are being refused in words beyond `maxHandshakes` of them; further ones are cut off without. */
const MAX_REFUSALS = 128;

/** Accepts base connections, welcomes new sessions on them, and gives resumed ones to the session that they belong to. */
export class AutoListener extends Listener implements ServerHome {
  readonly fast: FastServer | undefined;
  readonly resumeWindowMs: number;
  readonly #init: AutoListenerInit;
  /** Those in their handshake, and those that have failed in it and are not gone. */
  readonly #greetings = new Set<Greeting>();
  readonly #sessions = new Map<string, Entry>();
  readonly #names = new Map<ServerRole, string>();
  readonly #suspended: SuspendedSessions<ServerRole>;
  /** Those that are on no path yet that they may use, and are nobody's. */
  readonly #waiting = new Set<ServerRole>();
  #closing = false;

  constructor(init: AutoListenerInit) {
    super(init);
    this.#init = init;
    this.fast = init.fast;
    this.resumeWindowMs = init.options.resumeWindowMs;
    this.#suspended = new SuspendedSessions(init.options.maxSuspendedSessions);
    init.base.onConnection((connection) => this.#incoming(connection));
    void init.base.closed.then(() => this.close());
  }

  /** Why there is no fast path; for the peer. */
  get fastReason(): string | undefined {
    return this.fast === undefined ? this.#init.fastReason : this.fast.reason;
  }

  /** What has failed below, in the handshake of TLS for one, never came here. */
  override stats(): ListenerStats {
    const { accepted, failed } = super.stats();
    return { accepted, failed: failed + this.#init.base.stats().failed };
  }

  protected override async _close(): Promise<void> {
    this.#closing = true;
    for (const greeting of this.#greetings) greeting.refuse('overloaded', 'the listener is closing');
    for (const role of this.#suspended) role.giveUp('listener-closed', 'the listener was closed');
    for (const role of this.#waiting) role.connection.abort('the listener is closing');
    await Promise.all([this.#init.base.close(), this.fast?.close()]);
  }

  #incoming(base: Connection): void {
    const { options, connectionOptions } = this.#init;
    const greeting = new Greeting(base, options.preSharedKey, connectionOptions.handshakeTimeoutMs, {
      greeted: (_, hello) => this.#greeted(greeting, hello),
      failed: (_, error) => this._acceptFailed(error),
      gone: () => this.#greetings.delete(greeting),
    });
    this.#greetings.add(greeting);
    const inProgress = this.#greetings.size + this.#waiting.size;
    const why = `${options.maxHandshakes} handshakes are in progress (maxHandshakes)`;
    if (this.#closing) greeting.refuse('overloaded', 'the listener is closing');
    else if (inProgress > options.maxHandshakes + MAX_REFUSALS) greeting.cutOff('overloaded', why);
    else if (inProgress > options.maxHandshakes) greeting.refuse('overloaded', why);
  }

  #greeted(greeting: Greeting, hello: Hello): void {
    assertCarries(greeting.base);
    if (hello.resume === undefined) this.#open(greeting, hello);
    else this.#resume(greeting, hello);
  }

  #open(greeting: Greeting, hello: Hello): void {
    const { options, connectionOptions } = this.#init;
    if (options.policy === 'require-rdma' && hello.fastReason !== undefined)
      throw new Refusal('protocol', `this side requires the fast path, and yours says ${hello.fastReason}`);
    const requiresFast = options.policy === 'require-rdma' || hello.fastRequired;
    const ticket = makeTicket();
    const own = { maxMessageBytes: connectionOptions.maxMessageBytes, windowBytes: options.windowBytes };
    const { base } = greeting;
    const fastRequired = options.policy === 'require-rdma';
    greeting.welcome({ ...own, ticket, fastReason: this.fastReason, fastRequired, resumed: false });
    this.#greetings.delete(greeting);
    const reason = this.fastReason ?? (hello.fastReason === undefined ? 'negotiating' : 'peer-declined');
    const connection = new AutoConnection({
      base,
      direction: 'in',
      options: connectionOptions,
      maxMessageBytes: Math.min(
        own.maxMessageBytes,
        hello.maxMessageBytes,
        base.maxMessageBytes - HEADER_BYTES,
      ),
      windowBytes: Math.min(own.windowBytes, hello.windowBytes),
      localAddress: base.localAddress,
      remoteAddress: base.remoteAddress,
      reason,
      peerReason: hello.fastReason,
      requiresFast,
      makeRole: (made) => {
        const role = new ServerRole(
          made,
          this,
          ticket.session,
          requiresFast ? connectionOptions.handshakeTimeoutMs : undefined,
        );
        if (requiresFast) this.#waiting.add(role);
        this.#sessions.set(ticket.session, { ticket, role });
        this.#names.set(role, ticket.session);
        return role;
      },
    });
    this.#init.opened(connection);
    if (!requiresFast) this._accept(connection);
  }

  #resume(greeting: Greeting, hello: Hello): void {
    const { session, secret, epoch } = hello.resume as Ticket & { epoch: number };
    const entry = this.#sessions.get(session);
    if (entry === undefined || !sameSecret(entry.ticket.secret, secret)) {
      throw new Refusal(
        'session-unknown',
        'there is no such session: it has ended, or this is another process than before',
      );
    }
    const { connection } = entry.role;
    assertCarries(greeting.base, connection.maxMessageBytes);
    connection.session.assertEpoch(epoch); // who is welcome is not refused any more
    const { options, connectionOptions } = this.#init;
    greeting.welcome({
      maxMessageBytes: connectionOptions.maxMessageBytes,
      windowBytes: options.windowBytes,
      ticket: entry.ticket,
      fastReason: this.fastReason,
      fastRequired: options.policy === 'require-rdma',
      resumed: true,
    });
    this.#greetings.delete(greeting);
    entry.role.resumed();
    connection.resumeOn(greeting.base, epoch);
  }

  // ---- what sessions tell ------------------------------------------------------------------------------------

  /** @internal */
  usable(role: ServerRole): void {
    this.#waiting.delete(role);
    this._accept(role.connection);
  }

  /** @internal */
  suspended(role: ServerRole, waits: boolean): void {
    this.#suspended.delete(role);
    if (!waits) return;
    if (this.#closing) {
      role.giveUp('listener-closed', 'the listener was closed');
      return;
    }
    const { remoteAddress, session } = role.connection;
    this.#suspended
      .add(role, originOf(remoteAddress), session.carried)
      ?.giveUp('too-many-suspended', 'too many sessions wait to be resumed (maxSuspendedSessions)');
  }

  /** @internal */
  ended(role: ServerRole): void {
    this.#suspended.delete(role);
    if (this.#waiting.delete(role)) {
      void role.connection.closed.then(({ error }) => {
        this._acceptFailed(
          error ?? new VerbmqError('ERR_VERBMQ_REJECTED', 'the peer closed it before it was accepted'),
        );
      });
    }
    const name = this.#names.get(role);
    this.#names.delete(role);
    if (name !== undefined) this.#sessions.delete(name);
  }
}
