/**
 * Spans of OpenTelemetry for calls, jobs and events, made by listening: neither who sends nor who receives knows of it. Call
 * `traceVerbmq` once, when the process starts.
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
import { type PublishTrace, pubsubChannels } from 'verbmq/pubsub';
import { queueChannels } from 'verbmq/queue';
import { rpcChannels } from 'verbmq/rpc';

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
export function traceVerbmq({ store }: StoredContext): void {
  const tracer = trace.getTracer('verbmq');
  const spans = new WeakMap<object, Span>();
  const begin = (message: object, name: string, kind: SpanKind, parent: Context): Context => {
    const span = tracer.startSpan(name, { kind }, parent);
    spans.set(message, span);
    return trace.setSpan(parent, span);
  };
  /** What is sent is the child of what its program does, and takes that along as `traceparent`. */
  const send = (message: object, name: string, kind: SpanKind, carrier: Record<string, string>): Context => {
    const active = begin(message, name, kind, context.active());
    propagation.inject(active, carrier);
    return active;
  };
  /** What arrives is the child of what was sent, and whatever the handler does is the child of that. */
  const receive = (message: object, name: string, kind: SpanKind, carrier: object): Context =>
    begin(message, name, kind, propagation.extract(ROOT_CONTEXT, carrier));

  const { client, server } = rpcChannels;
  client.start.bindStore(store, (call) => send(call, call.method, SpanKind.CLIENT, call.metadata));
  server.start.bindStore(store, (call) => receive(call, call.method, SpanKind.SERVER, call.metadata));
  const { push, job } = queueChannels;
  push.start.bindStore(store, (to) => send(to, `send ${to.queue}`, SpanKind.PRODUCER, to.headers));
  job.start.bindStore(store, (of) => receive(of, `process ${of.queue}`, SpanKind.CONSUMER, of.headers));
  const { publish, event } = pubsubChannels;
  publish.start.bindStore(store, (to) => send(to, `publish ${to.topic}`, SpanKind.PRODUCER, to.headers));
  event.start.bindStore(store, (of) => receive(of, `receive ${of.topic}`, SpanKind.CONSUMER, of.headers));

  const end = (message: unknown): void => spans.get(message as object)?.end();
  for (const channel of [client, server, push, job, publish, event]) {
    channel.error.subscribe((message) => {
      const { error } = message as { error: Error };
      spans.get(message as object)?.recordException(error);
      spans.get(message as object)?.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    });
    channel.asyncEnd.subscribe(end);
  }
  // These are over at once: an event that was given to the program, and what the process of the broker publishes.
  event.end.subscribe(end);
  publish.end.subscribe((message) => {
    if ((message as PublishTrace).connection === undefined) end(message);
  });
}
