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

  /** @throws VerbmqError `ERR_VERBMQ_SEND_QUEUE_FULL` when too many are pending. */
  run<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#pending >= MAX_OPERATIONS) {
      throw new VerbmqError(
        'ERR_VERBMQ_SEND_QUEUE_FULL',
        `${MAX_OPERATIONS} one-sided operations are pending on this connection already: await some first`,
      );
    }
    this.#pending++;
    const running = attempt(operation);
    const settled = (): void => {
      this.#pending--;
      this.#onSettled();
    };
    running.then(settled, settled);
    return running;
  }
}

function attempt<T>(operation: () => Promise<T>): Promise<T> {
  try {
    return operation();
  } catch (error) {
    return Promise.reject(error);
  }
}
