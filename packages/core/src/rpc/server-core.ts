import type { Codec } from '../codec/codec.js';
import type { Logger } from '../contract/logger.js';
import type { ErrorDescription } from './remote-error.js';
import type { CallContext, Handler } from './service.js';

/**
 * Stands around every handler. Calls `next`, with the same body or another one, and answers with what that answers, or
 * something else: a value, a promise, or an async iterable where the call is a stream. What it throws, the caller gets.
 */
export type ServerInterceptor = (
  context: CallContext,
  body: unknown,
  next: (body: unknown) => unknown,
) => unknown;

/** What a server has chosen. */
export interface ServerSettings {
  readonly codec: Codec;
  readonly maxConcurrentCalls: number;
  readonly maxConcurrentCallsPerConnection: number;
  readonly maxBodyBytes: number;
  readonly maxBacklogBytes: number;
  readonly backlogTimeoutMs: number;
  readonly streamWindowBytes: number;
  readonly interceptors: readonly ServerInterceptor[];
  readonly describeError: (error: unknown) => ErrorDescription;
  readonly exposeStacks: boolean;
  readonly logger: Logger;
}

export interface Method {
  readonly name: string;
  readonly handler: Handler;
}

/** What all connections of a server share. */
export class ServerCore {
  readonly settings: ServerSettings;
  /** By number, which is the order in which callers are told of them. */
  readonly methods: readonly Method[];
  readonly byName: ReadonlyMap<string, Method>;
  draining = false;
  handled = 0;
  failed = 0;
  refused = 0;
  #running = 0;
  #whenIdle: (() => void)[] = [];

  constructor(methods: readonly Method[], settings: ServerSettings) {
    this.methods = methods;
    this.byName = new Map(methods.map((method) => [method.name, method]));
    this.settings = settings;
  }

  /** Calls whose answer has not left. Those whose handler answers at once never count. */
  get running(): number {
    return this.#running;
  }

  started(): void {
    this.#running++;
  }

  finished(): void {
    if (--this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** Resolves as soon as no call is running. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle.push(resolve);
    });
  }
}
