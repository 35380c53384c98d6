/** A call that makes another call, and has a job done of which an event tells; and what OpenTelemetry gets to see of all that. */
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { connect, listen } from 'verbmq';
import { PubsubBroker, pubsub } from 'verbmq/pubsub';
import { QueueBroker, queue } from 'verbmq/queue';
import { client, serve } from 'verbmq/rpc';
import { StoredContext, traceVerbmq } from './telemetry.js';

// Where spans really go is a matter of the exporter: see the documentation of OpenTelemetry.
const exporter = new InMemorySpanExporter();
const contextManager = new StoredContext();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register({ contextManager });
traceVerbmq(contextManager);

const stock = {
  reserve: async (item: string): Promise<number> => {
    if (item !== 'tea') throw new Error(`no ${item} left`);
    return 1;
  },
};
const stockListener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:0');
const stockServer = serve(stockListener, stock);
const stockClient = client<typeof stock>(await connect(stockListener.url));

const jobs = new QueueBroker();
const events = new PubsubBroker();
const orders = {
  place: async (item: string): Promise<void> => {
    await stockClient.reserve(item);
    await jobs.push('packing', item);
  },
};
const orderListener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:0');
const orderServer = serve(orderListener, { ...orders, ...jobs.service, ...events.service });
const connection = await connect(orderListener.url);

const packed = pubsub(connection).subscribe<string>('packed');
await packed.ready;
const shift = new AbortController();
const packing = queue<string>(connection, 'packing').work(
  async (item) => void events.publish('packed', item),
  { signal: shift.signal },
);

const orderClient = client<typeof orders>(connection);
await orderClient.place('tea');
await orderClient.place('coffee').catch(() => {});
await packed.next();
shift.abort();
await packing;
await packed.return();
await orderServer.close();
await stockServer.close();

// The calls that subscribe and consume last as long as the program; what is shown is what one order does.
const spans = exporter.getFinishedSpans().filter(({ name }) => !/^(queue|pubsub):/.test(name));
for (const root of spans.filter(({ parentSpanContext }) => parentSpanContext === undefined)) show(root, 0);

function show(span: (typeof spans)[number], depth: number): void {
  const failed = span.status.code === SpanStatusCode.ERROR ? ` failed: ${span.status.message}` : '';
  console.log(`${'  '.repeat(depth)}${SpanKind[span.kind].toLowerCase()} ${span.name}${failed}`);
  const { spanId } = span.spanContext();
  for (const child of spans.filter((each) => each.parentSpanContext?.spanId === spanId))
    show(child, depth + 1);
}
