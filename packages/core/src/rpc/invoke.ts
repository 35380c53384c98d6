import { type RpcTrace, rpcChannels } from './diagnostics.js';
import type { ServerInterceptor, ServerSettings } from './server-core.js';
import type { CallContext, Handler } from './service.js';

/** A call while its handler runs. */
export interface HandledCall extends CallContext {
  readonly wantsStream: boolean;
  /** Called once, when the call is over. */
  onOver: ((error?: unknown) => void) | undefined;
}

/** Calls a handler, through the interceptors and under the eyes of whoever traces. */
export function invoke(
  settings: ServerSettings,
  handler: Handler,
  body: unknown,
  call: HandledCall,
): unknown {
  if (rpcChannels.server.hasSubscribers) {
    return traced(call, () => intercept(settings.interceptors, 0, handler, body, call));
  }
  if (settings.interceptors.length === 0) return handler(body, call);
  return intercept(settings.interceptors, 0, handler, body, call);
}

function intercept(
  interceptors: readonly ServerInterceptor[],
  index: number,
  handler: Handler,
  body: unknown,
  call: HandledCall,
): unknown {
  const interceptor = interceptors[index];
  if (interceptor === undefined) return handler(body, call);
  return interceptor(call, body, (next) => intercept(interceptors, index + 1, handler, next, call));
}

/** The trace lasts until the call is over, which for a stream is long after its handler has returned. */
function traced(call: HandledCall, run: () => unknown): unknown {
  const trace: RpcTrace = {
    method: call.method,
    connection: call.connection,
    kind: call.wantsStream ? 'stream' : 'unary',
    metadata: { ...call.metadata },
  };
  let result: unknown;
  let failure: { readonly error: unknown } | undefined;
  // From the beginning on: a handler may end the call, as by its connection, before it returns.
  const ended = new Promise<void>((resolve, reject) => {
    call.onOver = (error) => (error === undefined ? resolve() : reject(error));
  });
  const over = rpcChannels.server.tracePromise(() => {
    try {
      result = run();
    } catch (error) {
      failure = { error };
    }
    return ended;
  }, trace);
  over.catch(() => {}); // the subscribers have been told; the caller is told elsewhere
  if (failure !== undefined) throw failure.error;
  return result;
}
