import type { LoadResult, LoadSpec } from './load.js';

/** What the benchmark asks of an echo process, one command at a time, and what it answers. */
export interface Commands {
  /** Server: start listening. Answers with the address. */
  listen: { argument: undefined; answer: string };
  /** Client: connect to a server. */
  connect: { argument: string; answer: undefined };
  /** Client: produce load and measure it. */
  load: { argument: LoadSpec; answer: LoadResult };
  /** CPU time that the process has used so far, in microseconds. */
  cpu: { argument: undefined; answer: number };
  /** Close everything; the process then ends by itself. */
  stop: { argument: undefined; answer: undefined };
}

export type CommandName = keyof Commands;

export interface Request {
  readonly command: CommandName;
  readonly argument?: unknown;
}

export type Reply =
  | { readonly ok: true; readonly answer?: unknown }
  | { readonly ok: false; readonly error: string };
