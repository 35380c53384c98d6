/**
 * How many messages a soak carries, in both directions together: `byDefault`, which takes seconds, or as many as
 * `VERBMQ_SOAK_MESSAGES` says.
 */
export function soakMessages(byDefault: number): number {
  return Number(process.env.VERBMQ_SOAK_MESSAGES ?? byDefault);
}

/**
 * Another one each time, or `VERBMQ_SOAK_SEED`. It is part of the names of the tests, so that what failed can be repeated,
 * but for the times of devices and processes.
 */
export function soakSeed(): number {
  return Number(process.env.VERBMQ_SOAK_SEED ?? Date.now() % 1_000_000);
}
