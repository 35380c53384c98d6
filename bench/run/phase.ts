import { cpuSince, type LoadResult } from './load-result.js';

/** One measured time of a load: begins when it is made, and is over when its duration has passed. */
export class Phase {
  readonly #cpu = process.cpuUsage();
  readonly #startedAt = performance.now();
  /** The time is over: what is on its way is still waited for, and nothing follows. */
  over = false;

  constructor(durationMs: number) {
    setTimeout(() => {
      this.over = true;
    }, durationMs);
  }

  /** What has been measured from the beginning until now. @param messages that were answered, rightly */
  result(messages: number): LoadResult {
    return { messages, elapsedMs: performance.now() - this.#startedAt, cpuMicros: cpuSince(this.#cpu) };
  }
}
