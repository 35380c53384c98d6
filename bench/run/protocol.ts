import type { LoadResult, LoadSpec } from './load-result.js';

/** What the benchmark asks of an echo process, one command at a time, and what it answers. */
export interface Commands {
  /** Server: start listening. Answers with the address. */
  listen: { argument: undefined; answer: string };
  /** Client: connect to a server, several times. */
  connect: { argument: { readonly address: string; readonly connections: number }; answer: undefined };
  /** Client: produce the load on each connection, and measure all of it together. */
  load: { argument: LoadSpec; answer: LoadResult };
  /** CPU time that the process has used so far, with that of its helpers, in microseconds. */
  cpu: { argument: undefined; answer: number };
  /** Memory of the process that is resident, in bytes. */
  memory: { argument: undefined; answer: number };
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
