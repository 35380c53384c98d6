import { VerbmqError } from '@verbmq/core';
import { Line } from '@verbmq/core/transport-kit';

/** Memory of some pool that may be given back at any time it is idle. */
export interface IdleMemory {
  readonly bytes: number;
  /** Gives it back, and takes it out of the account. */
  readonly drop: () => void;
}

/** The reason of the error when all connections together have as much as they may have: some will come free. */
export const LIMIT_REACHED = 'large-memory-total';

/** In which direction large messages go through memory: one must never wait for the other. */
export type Direction = 'in' | 'out';

/** Who has sent from memory of a pool. That the peer has read it is noticed only when somebody looks. */
export interface SentMemory {
  /** Looks, and gives back what was read. */
  readonly reclaim: () => void;
  /** Looks as soon as more is read. */
  readonly watch: () => void;
}

/** Somebody who waits for memory. */
export interface MemoryWaiter {
  /** How much would do, as it is counted; 0 when nobody waits there any more. */
  readonly wantedBytes: () => number;
  /** Its turn has come, and there is as much: for one use, until this returns. */
  readonly wake: () => void;
}

/** What one direction uses, and who waits for some of that. */
class Account {
  used = 0;
  /** Of it, what the application has, and gives back when it likes. */
  held = 0;
  readonly line = new Line<MemoryWaiter>();
  /** Whether the first in line is looked at soon. */
  advances = false;
  /** Whether the one whose turn it is has not used any yet. */
  isTurn = false;
}

export interface PoolMemoryLimits {
  /** For large messages in each direction, bytes. */
  readonly largeMemoryTotalBytes: number;
  /** Registered and not used, bytes. */
  readonly idleMemoryBytes: number;
}

/**
 * The account of all pools of one transport: how much they have, and how much of it lies idle. What has been idle for
 * the longest time is given back first.
 */
export class PoolMemory {
  readonly #limits: PoolMemoryLimits;
  /** In the order in which they became idle. */
  readonly #idle = new Set<IdleMemory>();
  readonly #accounts = { in: new Account(), out: new Account() };
  /** Only what has been advertised and not been found to be read. */
  readonly #sent = new Set<SentMemory>();
  #idleBytes = 0;

  constructor(limits: PoolMemoryLimits) {
    this.#limits = limits;
  }

  /** Registered and not used. */
  get idleBytes(): number {
    return this.#idleBytes;
  }

  /** In use for large messages of one direction. */
  usedBytes(direction: Direction): number {
    return this.#accounts[direction].used;
  }

  /**
   * @param held the application gets it, and has it for as long as it likes
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` when this direction has as much as it may have, or others wait for more already.
   */
  use(direction: Direction, bytes: number, held: boolean): void {
    const account = this.#accounts[direction];
    const mayPass = account.isTurn || account.line.length === 0;
    account.isTurn = false;
    if (direction === 'out' && mayPass && !this.#mayUse(account, bytes, held)) this.reclaim();
    if (!mayPass || !this.#mayUse(account, bytes, held)) {
      const { largeMemoryTotalBytes } = this.#limits;
      const others = mayPass ? '' : ', while others wait for memory already,';
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        `the connections of this transport use ${account.used} bytes for large messages, and ${bytes} more${others} exceed largeMemoryTotalBytes (${largeMemoryTotalBytes}): release messages and buffers sooner, or raise the limit`,
        { reason: LIMIT_REACHED },
      );
    }
    account.used += bytes;
    if (held) account.held += bytes;
  }

  unuse(direction: Direction, bytes: number): void {
    const account = this.#accounts[direction];
    account.used -= bytes;
    this.#advanceSoon(account);
  }

  /** The application keeps memory that is in use. `false`: it keeps as much as it may, and nothing was done. */
  hold(direction: Direction, bytes: number): boolean {
    const account = this.#accounts[direction];
    if (account.held > 0 && account.held + bytes > this.#limits.largeMemoryTotalBytes) return false;
    account.held += bytes;
    this.#advanceSoon(account);
    return true;
  }

  /** The application does not have it any more; it may still be in use. */
  unhold(direction: Direction, bytes: number): void {
    this.#accounts[direction].held -= bytes;
  }

  /** `waiter` is woken once, when its turn comes: first come, first served. One that waits already keeps its place. */
  wait(direction: Direction, waiter: MemoryWaiter): void {
    // Who sends from now on, or is told while somebody waits, watches by itself.
    const account = this.#accounts[direction];
    if (direction === 'out' && account.line.length === 0) for (const { watch } of this.#sent) watch();
    this.#advanceSoon(account); // the first may not wait any more, and have told nobody
    account.line.add(waiter);
  }

  /** `waiter` does not wait any more. */
  leave(direction: Direction, waiter: MemoryWaiter): void {
    const account = this.#accounts[direction];
    if (account.line.delete(waiter)) this.#advanceSoon(account);
  }

  /** Whether somebody waits for memory of this direction. */
  isAwaited(direction: Direction): boolean {
    return this.#accounts[direction].line.length > 0;
  }

  /** From now on a peer may read memory of a pool. Whoever waits for memory waits for that too. */
  isSent(memory: SentMemory): void {
    this.#sent.add(memory);
  }

  /** All of it was given back. */
  isNotSent(memory: SentMemory): void {
    this.#sent.delete(memory);
  }

  /** Gives back what peers have read by now. */
  reclaim(): void {
    for (const { reclaim } of [...this.#sent]) reclaim();
  }

  /** From now on this may be dropped; the oldest ones are, beyond the limit. */
  becameIdle(memory: IdleMemory): void {
    this.#idle.add(memory);
    this.#idleBytes += memory.bytes;
    for (const oldest of this.#idle) {
      if (this.#idleBytes <= this.#limits.idleMemoryBytes) return;
      oldest.drop();
    }
  }

  /** It is used, or gone. */
  isNotIdle(memory: IdleMemory): void {
    if (this.#idle.delete(memory)) this.#idleBytes -= memory.bytes;
  }

  #advanceSoon(account: Account): void {
    if (account.line.length === 0 || account.advances) return;
    account.advances = true;
    process.nextTick(this.#advance, account);
  }

  /** Lets one who waits have what there is for it. The others are not woken in vain: there may be a thousand of them. */
  readonly #advance = (account: Account): void => {
    account.advances = false;
    const first = account.line.peek();
    if (first === undefined) return;
    const wantedBytes = first.wantedBytes();
    if (wantedBytes > 0 && !this.#mayUse(account, wantedBytes, false)) return;
    account.line.shift();
    account.isTurn = true;
    try {
      first.wake();
    } finally {
      account.isTurn = false;
      this.#advanceSoon(account);
    }
  };

  /**
   * Of what the application has, nobody knows when it comes back: it may be waiting for just the message that waits here. So that
   * never keeps a message out, if no other is under way.
   */
  #mayUse({ used, held: heldBytes }: Account, bytes: number, held: boolean): boolean {
    const underWay = held ? used : used - heldBytes;
    return underWay === 0 || used + bytes <= this.#limits.largeMemoryTotalBytes;
  }
}
