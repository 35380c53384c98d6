import { isIPv6 } from 'node:net';
import type { HostAddress, PathAddress } from '../contract/address.js';

/**
 * Sessions that wait to be resumed, of which there may be so many. When there are more, one gives way:
 *
 * 1. one by which nothing was ever carried, if there is any: it has no message to lose;
 * 2. of those, one that comes from where most of them come from;
 * 3. of those, the one that waits longest.
 *
 * So a crowd of clients that connect and vanish makes room at its own expense.
 */
export class SuspendedSessions<Session> {
  readonly #limit: number;
  readonly #unused = new Crowd<Session>();
  readonly #used = new Crowd<Session>();
  readonly #places = new Map<Session, { readonly crowd: Crowd<Session>; readonly from: string }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds one that is not there. Answers with the one that is too many, perhaps this one, which is not there any more. */
  add(session: Session, from: string, used: boolean): Session | undefined {
    const crowd = used ? this.#used : this.#unused;
    crowd.add(session, from);
    this.#places.set(session, { crowd, from });
    if (this.#places.size <= this.#limit) return undefined;
    const first = this.#unused.first ?? (this.#used.first as Session);
    this.delete(first);
    return first;
  }

  delete(session: Session): void {
    const place = this.#places.get(session);
    if (place === undefined) return;
    this.#places.delete(session);
    place.crowd.delete(session, place.from);
  }

  [Symbol.iterator](): Iterator<Session> {
    return this.#places.keys();
  }
}

/** Knows at once who is the first to give way, however many there are: all clients of a server may be lost at the same moment. */
class Crowd<Session> {
  /** By where they come from, the one that waits longest first. */
  readonly #groups = new Map<string, Set<Session>>();
  /** At each number, from where so many come. The last one is never empty. */
  readonly #bySize: Set<string>[] = [];

  add(session: Session, from: string): void {
    let group = this.#groups.get(from);
    if (group === undefined) {
      group = new Set();
      this.#groups.set(from, group);
    }
    this.#resized(from, group.size, group.size + 1);
    group.add(session);
  }

  delete(session: Session, from: string): void {
    const group = this.#groups.get(from) as Set<Session>;
    this.#resized(from, group.size, group.size - 1);
    group.delete(session);
    if (group.size === 0) this.#groups.delete(from);
  }

  get first(): Session | undefined {
    const [from] = this.#bySize.at(-1) ?? [];
    if (from === undefined) return undefined;
    const [session] = this.#groups.get(from) as Set<Session>;
    return session;
  }

  #resized(from: string, before: number, after: number): void {
    this.#bySize[before]?.delete(from);
    if (after > 0) {
      this.#bySize[after] ??= new Set();
      this.#bySize[after].add(from);
    }
    while (this.#bySize.at(-1)?.size === 0) this.#bySize.pop();
  }
}

/** Where a session comes from: what is behind one address, or one network of IPv6 (its first 64 bits), may be many by itself. */
export function originOf(address: HostAddress | PathAddress): string {
  return 'path' in address ? address.path : networkOf(address.host);
}

function networkOf(host: string): string {
  if (!isIPv6(host)) return host;
  const ipv4 = /^::ffff:([\d.]+)$/i.exec(host)?.[1]; // on a socket that takes both
  if (ipv4 !== undefined) return ipv4;
  const groupsOf = (text = ''): string[] => (text === '' ? [] : text.split(':'));
  const [before, after] = host.split('::').map(groupsOf) as [string[], string[]?];
  const zeros = after === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...new Array<string>(zeros).fill('0'), ...(after ?? [])].slice(0, 4).join(':');
}
