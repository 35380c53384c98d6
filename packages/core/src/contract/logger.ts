/**
 * What verbmq needs of a logger. A pino logger fits as it is; so does any object with these methods.
 * Nothing is logged unless one is passed in; docs/observing.md says what on which level. What it throws becomes an uncaught exception, and stops nothing else.
 */
export interface Logger {
  debug(fields: object, message?: string): void;
  info(fields: object, message?: string): void;
  warn(fields: object, message?: string): void;
  error(fields: object, message?: string): void;
  child(bindings: object): Logger;
}

/**
 * The same logger, for use where something else has to go on: one that throws is the program's own fault, and is reported as that of
 * an event handler is.
 */
export function guarded(logger: Logger): Logger {
  return logger === silentLogger || logger instanceof GuardedLogger ? logger : new GuardedLogger(logger);
}

class GuardedLogger implements Logger {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  debug(fields: object, message?: string): void {
    this.#log('debug', fields, message);
  }
  info(fields: object, message?: string): void {
    this.#log('info', fields, message);
  }
  warn(fields: object, message?: string): void {
    this.#log('warn', fields, message);
  }
  error(fields: object, message?: string): void {
    this.#log('error', fields, message);
  }

  /** Where there can be none, what the child was to log is logged without its bindings. */
  child(bindings: object): Logger {
    try {
      return guarded(this.#logger.child(bindings));
    } catch (error) {
      throwLater(error);
      return this;
    }
  }

  #log(level: 'debug' | 'info' | 'warn' | 'error', fields: object, message: string | undefined): void {
    try {
      this.#logger[level](fields, message);
    } catch (error) {
      throwLater(error);
    }
  }
}

function throwLater(error: unknown): void {
  process.nextTick(() => {
    throw error;
  });
}

const nothing = (): void => {};

/** Logs nothing. */
export const silentLogger: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLogger,
};
