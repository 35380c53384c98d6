/**
 * Spans of OpenTelemetry for calls, made by listening: neither callers nor handlers know of it. Call `traceCalls` once, when
 * the process starts.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { type RpcTrace, rpcChannels } from 'verbmq/rpc';

/** What OpenTelemetry calls the active context, in a store that the channels can set. */
export class StoredContext implements ContextManager {
  readonly store = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.store.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    run: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.store.run(active, () => run.apply(self, args));
  }

  bind<T>(active: Context, target: T): T {
    if (typeof target !== 'function') return target;
    return ((...args: unknown[]) => this.store.run(active, () => target(...args))) as T;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    this.store.disable();
    return this;
  }
}

/** @param stored the context manager that OpenTelemetry was registered with */
export function traceCalls({ store }: StoredContext): void {
  const tracer = trace.getTracer('verbmq');
  const spans = new WeakMap<RpcTrace, Span>();
  const begin = (call: RpcTrace, kind: SpanKind, parent: Context): Context => {
    const span = tracer.startSpan(call.method, { kind, attributes: { 'rpc.system': 'verbmq' } }, parent);
    spans.set(call, span);
    return trace.setSpan(parent, span);
  };

  // A caller's span is the child of what its program does, and travels with the call as `traceparent`.
  rpcChannels.client.start.bindStore(store, (call) => {
    const active = begin(call, SpanKind.CLIENT, context.active());
    propagation.inject(active, call.metadata);
    return active;
  });
  // A handler's span is the child of its caller's, and whatever the handler does is the child of that.
  rpcChannels.server.start.bindStore(store, (call) =>
    begin(call, SpanKind.SERVER, propagation.extract(ROOT_CONTEXT, call.metadata)),
  );

  for (const { error, asyncEnd } of [rpcChannels.client, rpcChannels.server]) {
    error.subscribe((message) => {
      const call = message as RpcTrace;
      const failure = call.error as Error;
      spans.get(call)?.recordException(failure);
      spans.get(call)?.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
    });
    asyncEnd.subscribe((message) => spans.get(message as RpcTrace)?.end());
  }
}
