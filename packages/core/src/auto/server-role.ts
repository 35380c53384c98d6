import { VerbmqError } from '../contract/errors.js';
import type { AutoConnection } from './auto-connection.js';
import type { AutoRole } from './auto-role.js';
import { requiredPathBroke } from './end-reason.js';
import { type FastServer, fastReasonOf } from './fast-server.js';
import { Fields } from './fields.js';
import { FrameKind, jsonFrame, protocolError } from './frames.js';
import { BASE, type PathNumber } from './session.js';

/** What a session on the accepting side needs of its listener. */
export interface ServerHome {
  readonly fast: FastServer | undefined;
  /** Why there is no fast path; for the peer. */
  readonly fastReason: string | undefined;
  readonly resumeWindowMs: number;
  /** A session that requires the fast path is on it, and may be given to the application. */
  usable(role: ServerRole): void;
  /** The session waits to be resumed; or, where that is over, not any more. */
  suspended(role: ServerRole, waits: boolean): void;
  ended(role: ServerRole): void;
}

/** The side that accepted: it waits to be resumed, and grants fast paths. */
export class ServerRole implements AutoRole {
  readonly connection: AutoConnection;
  readonly #home: ServerHome;
  readonly #session: string;
  #lost: VerbmqError | undefined;
  /** Until when the peer must have resumed, and be on the fast path where that is required. */
  #resumeDeadline: NodeJS.Timeout | undefined;
  #fastDeadline: NodeJS.Timeout | undefined;
  #number: PathNumber = BASE;
  /** Whether no data may take the base connection. */
  readonly #requiresFast: boolean;
  /** Whether it is not the application's yet: the fast path is required, and not there. */
  #waiting: boolean;
  #over = false;

  /**
   * @param session its name
   * @param fastWithinMs Within that time a session that requires the fast path must be on it; `undefined`: it does not.
   */
  constructor(connection: AutoConnection, home: ServerHome, session: string, fastWithinMs?: number) {
    this.connection = connection;
    this.#home = home;
    this.#session = session;
    this.#requiresFast = fastWithinMs !== undefined;
    this.#waiting = this.#requiresFast;
    if (fastWithinMs !== undefined) {
      this.#fastDeadline = setTimeout(() => {
        const what = `the fast path, which is required, was not there within ${fastWithinMs} ms`;
        connection.fail(new VerbmqError('ERR_VERBMQ_UNAVAILABLE', what, { reason: 'timeout' }));
      }, fastWithinMs);
      this.#fastDeadline.unref();
    }
  }

  baseLost(error: VerbmqError): void {
    if (this.#waiting) {
      this.connection.fail(error);
      return;
    }
    this.#lost = error;
    const { resumeWindowMs } = this.#home;
    if (resumeWindowMs === 0) {
      this.giveUp('resume-off', 'sessions are not resumed (resumeWindowMs is 0)');
      return;
    }
    this.#resumeDeadline = setTimeout(() => {
      this.giveUp('resume-timeout', `the peer did not resume the session within ${resumeWindowMs} ms`);
    }, resumeWindowMs);
    this.#home.suspended(this, true);
  }

  /** The peer has come back, perhaps before its old connection was seen to be lost. It gets no more time for the fast path. */
  resumed(): void {
    clearTimeout(this.#resumeDeadline);
    this.#home.suspended(this, false);
  }

  /** The session is not waited for any more. */
  giveUp(reason: string, what: string): void {
    const lost = this.#lost as VerbmqError;
    this.connection.fail(new VerbmqError(lost.code, `${lost.message}, and ${what}`, { cause: lost, reason }));
  }

  negotiation(kind: number, frame: Uint8Array): void {
    if (kind === FrameKind.FAST_FAILED) {
      this.#failed(frame);
      return;
    }
    if (kind !== FrameKind.FAST_REQUEST)
      throw protocolError(`a frame of kind ${kind} came to the side that accepted`);
    const number = Fields.ofFrame(frame).whole('number', this.#number + 1, 2 ** 32 - 1);
    this.#number = number;
    const { fast, fastReason } = this.#home;
    if (fast === undefined) this.#decline(number, fastReason ?? 'not-configured');
    else void this.#grant(fast, number);
  }

  async #grant(fast: FastServer, number: PathNumber): Promise<void> {
    try {
      await fast.listen();
    } catch (error) {
      if (this.#over) return;
      this.connection.explain(fastReasonOf(error), String(error));
      this.#decline(number, fastReasonOf(error));
      return;
    }
    if (this.#over || number !== this.#number) return;
    this.connection.explain('negotiating', undefined, null);
    const { token, key } = fast.grant(this.connection, this.#session, number);
    this.connection.sendControl(
      jsonFrame(FrameKind.FAST_GRANT, { number, token, key, addresses: fast.addresses }),
    );
  }

  /** The peer gives up what it asked for last, or could not even ask. */
  #failed(frame: Uint8Array): void {
    const fields = Fields.ofFrame(frame);
    const reason = fields.text('reason');
    if (fields.whole('number', 0, 2 ** 32 - 1) !== this.#number) return;
    this.#home.fast?.forget(this.connection);
    if (this.connection.path.fast) return;
    this.connection.explain('peer-declined', `the peer could not use the fast path: ${reason}`, reason);
  }

  #decline(number: PathNumber, reason: string): void {
    this.connection.sendControl(jsonFrame(FrameKind.FAST_DECLINE, { number, reason }));
  }

  /** The other side asks again when it wants to. */
  fastLost(): void {
    if (this.#requiresFast && !this.#waiting) this.connection.fail(requiredPathBroke());
  }

  moved(path: PathNumber): void {
    if (!this.#waiting || path === BASE) return;
    this.#waiting = false;
    clearTimeout(this.#fastDeadline);
    this.#home.usable(this);
  }

  ended(): void {
    this.#over = true;
    clearTimeout(this.#resumeDeadline);
    clearTimeout(this.#fastDeadline);
    this.#home.fast?.forget(this.connection);
    this.#home.ended(this);
  }
}
