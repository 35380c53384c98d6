import { VerbmqError } from '@verbmq/core';

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
  readonly #used = { in: 0, out: 0 };
  readonly #held = { in: 0, out: 0 };
  readonly #waiting = { in: new Set<() => void>(), out: new Set<() => void>() };
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
    return this.#used[direction];
  }

  /**
   * @param held the application gets it, and has it for as long as it likes
   * @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` when this direction has as much as it may have.
   */
  use(direction: Direction, bytes: number, held: boolean): void {
    const { largeMemoryTotalBytes } = this.#limits;
    if (direction === 'out' && !this.#mayUse(direction, bytes, held)) this.reclaim();
    const used = this.#used[direction];
    if (!this.#mayUse(direction, bytes, held)) {
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        `the connections of this transport use ${used} bytes for large messages, and ${bytes} more exceed largeMemoryTotalBytes (${largeMemoryTotalBytes}): release messages and buffers sooner, or raise the limit`,
        { reason: LIMIT_REACHED },
      );
    }
    this.#used[direction] = used + bytes;
    if (held) this.#held[direction] += bytes;
  }

  unuse(direction: Direction, bytes: number): void {
    this.#used[direction] -= bytes;
    this.#wake(direction);
  }

  /** The application keeps memory that is in use. `false`: it keeps as much as it may, and nothing was done. */
  hold(direction: Direction, bytes: number): boolean {
    const held = this.#held[direction];
    if (held > 0 && held + bytes > this.#limits.largeMemoryTotalBytes) return false;
    this.#held[direction] = held + bytes;
    this.#wake(direction);
    return true;
  }

  /** The application does not have it any more; it may still be in use. */
  unhold(direction: Direction, bytes: number): void {
    this.#held[direction] -= bytes;
  }

  /** Calls `wake` once, when memory of this direction has been given back, or is kept by the application. */
  whenFreed(direction: Direction, wake: () => void): void {
    // Who sends from now on, or is told while somebody waits, watches by itself.
    if (direction === 'out' && !this.isAwaited('out')) for (const { watch } of this.#sent) watch();
    this.#waiting[direction].add(wake);
  }

  /** Whether somebody waits for memory of this direction. */
  isAwaited(direction: Direction): boolean {
    return this.#waiting[direction].size > 0;
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

  #wake(direction: Direction): void {
    if (!this.isAwaited(direction)) return;
    const waiting = [...this.#waiting[direction]];
    this.#waiting[direction].clear();
    for (const wake of waiting) process.nextTick(wake);
  }

  /**
   * Of what the application has, nobody knows when it comes back: it may be waiting for just the message that waits here. So that
   * never keeps a message out, if no other is under way.
   */
  #mayUse(direction: Direction, bytes: number, held: boolean): boolean {
    const used = this.#used[direction];
    const underWay = held ? used : used - this.#held[direction];
    return underWay === 0 || used + bytes <= this.#limits.largeMemoryTotalBytes;
  }
}
