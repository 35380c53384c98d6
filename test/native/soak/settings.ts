import type { ScriptOptions } from './script.mjs';

export interface Soak {
  /** How many messages it carries, in both directions together. */
  readonly messages: number;
  readonly script: ScriptOptions;
  /** How long it may take, in milliseconds. */
  readonly timeout: number;
}

/** Messages on one connection in each direction, at most, where there are many. */
const LONGEST_LIFE = 400;

/**
 * A soak of `messages` messages, which takes seconds, or of as many as `VERBMQ_SOAK_MESSAGES` says. `VERBMQ_SOAK_SEED`
 * repeats one that failed, but for the times of devices and processes: the seed is part of the names of the tests.
 */
export function soakOf(messages: number, longestBytes: number): Soak {
  const wanted = Number(process.env.VERBMQ_SOAK_MESSAGES ?? messages);
  const seed = Number(process.env.VERBMQ_SOAK_SEED ?? Date.now() % 1_000_000);
  const longestLife = Math.min(LONGEST_LIFE, Math.ceil(wanted / 40));
  return { messages: wanted, script: { seed, longestBytes, longestLife }, timeout: 240_000 + 100 * wanted };
}
