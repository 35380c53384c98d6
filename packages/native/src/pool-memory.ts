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

  /** @throws VerbmqError `ERR_VERBMQ_NO_BUFFERS` when this direction has as much as it may have. */
  use(direction: Direction, bytes: number): void {
    const { largeMemoryTotalBytes } = this.#limits;
    if (direction === 'out' && !this.#mayUse(direction, bytes)) this.reclaim();
    const used = this.#used[direction];
    if (!this.#mayUse(direction, bytes)) {
      throw new VerbmqError(
        'ERR_VERBMQ_NO_BUFFERS',
        `the connections of this transport use ${used} bytes for large messages, and ${bytes} more exceed largeMemoryTotalBytes (${largeMemoryTotalBytes}): release messages and buffers sooner, or raise the limit`,
        { reason: LIMIT_REACHED },
      );
    }
    this.#used[direction] = used + bytes;
  }

  unuse(direction: Direction, bytes: number): void {
    this.#used[direction] -= bytes;
    if (!this.isAwaited(direction)) return;
    const waiting = [...this.#waiting[direction]];
    this.#waiting[direction].clear();
    for (const wake of waiting) process.nextTick(wake);
  }

  /** Calls `wake` once, when memory of this direction has been given back. */
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

  #mayUse(direction: Direction, bytes: number): boolean {
    const used = this.#used[direction];
    return used === 0 || used + bytes <= this.#limits.largeMemoryTotalBytes;
  }
}
