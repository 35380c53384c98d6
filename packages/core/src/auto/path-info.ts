import { channel } from 'node:diagnostics_channel';
import type { Logger } from '../contract/logger.js';

/**
 * Why a connection is not on its fast path. Stable; further ones are the codes of the fast transport's `probe()`, such as
 * `no-device`, `library-missing`, `memlock`, and come from whichever side has the trouble.
 *
 * | code | meaning |
 * |---|---|
 * | `policy` | this side does not want it (`policy: 'tcp'`) |
 * | `not-configured` | this side has no fast transport, or no address for it |
 * | `encrypted` | the base connection is encrypted and the fast path would not be; see the option `unencryptedFastPath` |
 * | `peer-declined` | the peer cannot or will not; `peerReason` says why |
 * | `negotiating` | not decided yet: it is being looked for, connected and proved |
 * | `unreachable` | no address of the peer's fast transport could be connected to |
 * | `probe-failed` | connected, but data did not come through unchanged |
 * | `message-limit` | its messages are shorter than this connection's may be |
 * | `broken` | it was used, and broke; it is tried again after a while |
 * | `listen-failed` | the fast transport could not listen |
 * | `listener-closed` | the listener that the connection came by is closed, so there is no way to a fast path any more |
 */
export type PathReason =
  | 'policy'
  | 'not-configured'
  | 'encrypted'
  | 'peer-declined'
  | 'negotiating'
  | 'unreachable'
  | 'probe-failed'
  | 'message-limit'
  | 'broken'
  | 'listen-failed'
  | 'listener-closed'
  | (string & {});

const DECISIONS: ReadonlySet<string> = new Set(['policy', 'not-configured', 'encrypted', 'listener-closed']);

/** Whether somebody wants it so. Other reasons may be gone in a while: a device comes, a limit is raised. */
export function isDecision(reason: PathReason | undefined): boolean {
  return reason !== undefined && DECISIONS.has(reason);
}

/** Which way the data of an auto connection takes, and why. */
export interface PathInfo {
  /** The kind of the transport that carries the data: `rdma`, `tcp`, `tls`, `unix`, … */
  readonly kind: string;
  /** Whether that is the fast path. */
  readonly fast: boolean;
  /** Whether data flows. It does not for the moment in which sides agree on a path, and while the connection is resumed. */
  readonly flowing: boolean;
  /** Why it is not the fast one, in this side's view; absent where it is. */
  readonly reason?: PathReason;
  /** The same in words, for people. */
  readonly explanation?: string;
  /** The peer's reason, where it gave one. */
  readonly peerReason?: PathReason;
}

/** Told of each change of a path: `{ connection, path }`. Costs nothing while nobody has subscribed. */
export const pathChannel = channel('verbmq:auto:path');

/**
 * So many changes of one connection are logged as information, and then one in so long. The others are for those who debug: a peer
 * may cause as many as it sends frames.
 */
const LOGGED_AT_ONCE = 8;
const LOGGED_AGAIN_MS = 10_000;

/**
 * Keeps what is known of a connection's path, and tells each change. In the log a state that stays stands once: that its fast path was
 * asked for again and could not be had for the same reason, as it may be every minute for days, is for those who debug.
 */
export class PathReporter {
  readonly #connection: object;
  readonly #logger: Logger;
  readonly #look: () => Pick<PathInfo, 'fast' | 'flowing'> & { readonly kind: string | undefined };
  readonly #handlers = new Set<(path: PathInfo) => void>();
  #why: Pick<PathInfo, 'reason' | 'explanation' | 'peerReason'>;
  #last: PathInfo | undefined;
  /** What was logged as information last. */
  #known: PathInfo | undefined;
  #over = false;
  /** How many changes may still be logged as information, and when that was reckoned. */
  #room = LOGGED_AT_ONCE;
  #reckonedAt = performance.now();

  /** @param look what carries the data at the moment; no kind while nothing does. */
  constructor(
    connection: object,
    logger: Logger,
    why: Pick<PathInfo, 'reason' | 'peerReason'>,
    look: () => Pick<PathInfo, 'fast' | 'flowing'> & { readonly kind: string | undefined },
  ) {
    this.#connection = connection;
    this.#logger = logger;
    this.#why = why;
    this.#look = look;
  }

  get path(): PathInfo {
    const { kind, fast, flowing } = this.#look();
    const now = { kind: kind ?? this.#last?.kind ?? 'none', fast, flowing };
    return fast ? now : { ...now, ...this.#why };
  }

  subscribe(handler: (path: PathInfo) => void): () => void {
    const own = (path: PathInfo): void => handler(path); // the same one may be given twice
    if (!this.#over) this.#handlers.add(own);
    return () => void this.#handlers.delete(own);
  }

  /** The connection has ended: nobody is told anything any more. */
  end(): void {
    this.#over = true;
    this.#handlers.clear();
  }

  /** Why it is not the fast path. The peer's reason stays what it was where it is left out; `null`: it has none any more. */
  explain(reason: PathReason, explanation?: string, peerReason?: PathReason | null): void {
    this.#last ??= this.path; // that of the beginning is not told
    const ofPeer = peerReason === undefined ? this.#why.peerReason : peerReason;
    this.#why = {
      reason,
      ...(explanation !== undefined && { explanation }),
      ...(ofPeer != null && { peerReason: ofPeer }),
    };
    this.tell();
  }

  /** Tells those who want to know, if it is another one than was told last. */
  tell(): void {
    if (this.#over) return;
    const { path } = this;
    if (this.#last !== undefined && isSame(this.#last, path)) return;
    this.#last = path;
    this.#logger[this.#isNews(path) ? 'info' : 'debug']({ path }, 'the path of the data has changed');
    if (pathChannel.hasSubscribers) pathChannel.publish({ connection: this.#connection, path });
    // Those that come while it is told have asked in time for `path`, and are told the next change.
    for (const handler of [...this.#handlers]) {
      if (!this.#handlers.has(handler)) continue;
      try {
        handler(path);
      } catch (error) {
        process.nextTick(() => {
          throw error;
        });
      }
    }
  }

  /** Whether it is worth a line in a log that somebody reads. */
  #isNews(path: PathInfo): boolean {
    const known = this.#known;
    if (path.reason === 'negotiating') {
      if (path.flowing && (known === undefined || (known.flowing && known.kind === path.kind))) return false;
    } else if (known !== undefined && isSame(known, path)) return false;
    const now = performance.now();
    this.#room = Math.min(LOGGED_AT_ONCE, this.#room + (now - this.#reckonedAt) / LOGGED_AGAIN_MS);
    this.#reckonedAt = now;
    if (this.#room < 1) return false;
    this.#room--;
    this.#known = path;
    return true;
  }
}

function isSame(one: PathInfo, other: PathInfo): boolean {
  return (
    one.kind === other.kind &&
    one.flowing === other.flowing &&
    one.reason === other.reason &&
    one.peerReason === other.peerReason
  );
}
