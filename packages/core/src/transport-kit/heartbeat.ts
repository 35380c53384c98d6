import { VerbmqError } from '../contract/errors.js';
import type { ResolvedConnectionOptions } from '../contract/options.js';

/** What a heartbeat needs of its connection. */
export interface HeartbeatHooks {
  /** Ask the peer for a sign of life. */
  ping(): void;
  /** The peer has been silent for too long. */
  dead(error: VerbmqError): void;
}

/**
 * Finds silent peers. Any traffic counts as life, so a peer that speaks is sent no pings; a silent one gets at least
 * one before it is given up, and is given up no earlier than `peerTimeoutMs` after its last sign of life. Silence is counted in
 * ticks of a timer and not by the clock: a process that was itself busy or suspended for minutes sees one late tick,
 * reads what has arrived meanwhile, and does not take its peers for dead.
 */
export class Heartbeat {
  readonly #hooks: HeartbeatHooks;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #ticksUntilDead: number;
  readonly #peerTimeoutMs: number;
  #alive = true;
  #silentTicks = 0;

  constructor(options: ResolvedConnectionOptions, hooks: HeartbeatHooks) {
    this.#hooks = hooks;
    this.#peerTimeoutMs = options.peerTimeoutMs;
    const intervalMs = Math.min(options.heartbeatIntervalMs, Math.ceil(options.peerTimeoutMs / 2));
    this.#ticksUntilDead = intervalMs === 0 ? 0 : Math.max(2, Math.ceil(options.peerTimeoutMs / intervalMs));
    if (intervalMs === 0) return;
    this.#timer = setInterval(() => this.#tick(), intervalMs);
    this.#timer.unref();
  }

  /** Something came from the peer. */
  touch(): void {
    this.#alive = true;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    if (this.#alive) {
      this.#alive = false;
      this.#silentTicks = 0;
      return;
    }
    this.#silentTicks++;
    if (this.#silentTicks >= this.#ticksUntilDead) {
      this.stop();
      this.#hooks.dead(
        new VerbmqError(
          'ERR_VERBMQ_PEER_TIMEOUT',
          `the peer has not been heard of for ${this.#peerTimeoutMs} ms (peerTimeoutMs): it hangs, or the network does`,
        ),
      );
      return;
    }
    this.#hooks.ping();
  }
}
