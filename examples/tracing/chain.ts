/** A call that makes another call, and what OpenTelemetry gets to see of both. */
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { connect, listen } from 'verbmq';
import { client, serve } from 'verbmq/rpc';
import { StoredContext, traceCalls } from './telemetry.js';

// Where spans really go is a matter of the exporter: see the documentation of OpenTelemetry.
const exporter = new InMemorySpanExporter();
const contextManager = new StoredContext();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register({ contextManager });
traceCalls(contextManager);

const stock = {
  reserve: async (item: string): Promise<number> => {
    if (item !== 'tea') throw new Error(`no ${item} left`);
    return 1;
  },
};
const stockListener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:0');
const stockServer = serve(stockListener, stock);
const stockClient = client<typeof stock>(await connect(stockListener.url));

const orders = { place: async (item: string): Promise<number> => await stockClient.reserve(item) };
const orderListener = await listen(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:0');
const orderServer = serve(orderListener, orders);
const orderClient = client<typeof orders>(await connect(orderListener.url));

await orderClient.place('tea');
await orderClient.place('coffee').catch(() => {});
await orderServer.close();
await stockServer.close();

const spans = exporter.getFinishedSpans();
for (const root of spans.filter(({ parentSpanContext }) => parentSpanContext === undefined)) show(root, 0);

function show(span: (typeof spans)[number], depth: number): void {
  const failed = span.status.code === SpanStatusCode.ERROR ? ` failed: ${span.status.message}` : '';
  console.log(`${'  '.repeat(depth)}${SpanKind[span.kind].toLowerCase()} ${span.name}${failed}`);
  const { spanId } = span.spanContext();
  for (const child of spans.filter((each) => each.parentSpanContext?.spanId === spanId))
    show(child, depth + 1);
}
