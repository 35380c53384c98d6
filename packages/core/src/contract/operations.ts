import { VerbmqError } from './errors.js';

/** One-sided operations that may be pending on one connection; the next one is refused. */
const MAX_OPERATIONS = 65_536;

/** Counts the one-sided operations that are pending, so that they are bounded and a close waits for them. */
export class PendingOperations {
  readonly #onSettled: () => void;
  #pending = 0;

  constructor(onSettled: () => void) {
    this.#onSettled = onSettled;
  }

  get pending(): number {
    return this.#pending;
  }

  /**
   * @param count as how many it counts
   * @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL` when too many are pending.
   */
  run<T>(operation: () => Promise<T>, count = 1): Promise<T> {
    if (this.#pending + count > MAX_OPERATIONS) {
      throw new VerbmqError(
        'ERR_VERBMQ_SEND_QUEUE_FULL',
        `no more than ${MAX_OPERATIONS} one-sided operations may be pending on one connection: await some first`,
      );
    }
    this.#pending += count;
    const running = attempt(operation);
    const settled = (): void => {
      this.#pending -= count;
      this.#onSettled();
    };
    running.then(settled, settled);
    return running;
  }
}

/**
 * Waits until all parts of an operation have ended, since until then the caller's memory is not its own again.
 * @param changes whether each part changes the peer's memory: then an error of an operation of which a part may have been done says so
 * @throws (as a rejection) the first error
 */
export async function allEnded(parts: readonly Promise<unknown>[], changes: boolean): Promise<void> {
  const errors: unknown[] = [];
  await Promise.all(parts.map((part) => part.catch((error: unknown) => errors.push(error))));
  if (errors.length === 0) return;
  const [first] = errors;
  const undone = errors.filter((error) => !(error instanceof VerbmqError && error.outcome === 'unknown'));
  throw changes && undone.length < parts.length && first instanceof VerbmqError
    ? first.withUnknownOutcome()
    : first;
}

function attempt<T>(operation: () => Promise<T>): Promise<T> {
  try {
    return operation();
  } catch (error) {
    return Promise.reject(error);
  }
}
