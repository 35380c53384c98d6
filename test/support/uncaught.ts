/**
 * The next uncaught exception of this process, which is then nobody else's: the test runner's own listeners are put
 * aside until it has come.
 */
export function uncaughtException(): Promise<unknown> {
  const others = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  return new Promise((resolve) => {
    process.once('uncaughtException', (error) => {
      for (const listener of others) process.on('uncaughtException', listener);
      resolve(error);
    });
  });
}

/** All of them, until `stop` is called. */
export function uncaughtExceptions(): { readonly errors: readonly unknown[]; stop(): void } {
  const others = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  const errors: unknown[] = [];
  const keep = (error: unknown): void => {
    errors.push(error);
  };
  process.on('uncaughtException', keep);
  return {
    errors,
    stop() {
      process.off('uncaughtException', keep);
      for (const listener of others) process.on('uncaughtException', listener);
    },
  };
}
