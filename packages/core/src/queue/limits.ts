/** The most that a broker gives one consumer before any of it is acknowledged. */
export const MAX_PREFETCH = 65_536;

const MAX_NAME_LENGTH = 255;

/** @throws TypeError for what is no name of a queue. */
export function checkQueueName(name: unknown): void {
  if (typeof name === 'string' && name !== '' && name.length <= MAX_NAME_LENGTH) return;
  throw new TypeError(`a queue has a name of 1 to ${MAX_NAME_LENGTH} characters`);
}
