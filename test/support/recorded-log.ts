import type { Logger } from '@verbmq/core';

/** What was logged: level, bindings and fields together, message. */
export interface LogLine {
  readonly level: string;
  readonly message: string | undefined;
  readonly [field: string]: unknown;
}

/** A logger that keeps what it is told. `bindings`: what each line has of itself. */
export function recordedLog(bindings: object = {}): { lines: LogLine[]; logger: Logger } {
  const lines: LogLine[] = [];
  const bound = (own: object): Logger => {
    const at = (level: string) => (fields: object, message?: string) =>
      void lines.push({ ...own, ...fields, level, message });
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (more) => bound({ ...own, ...more }),
    };
  };
  return { lines, logger: bound(bindings) };
}
