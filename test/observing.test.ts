import { readFileSync } from 'node:fs';
import { type Connection, channels, listen, pathChannel, RdmaTransport, TcpTransport } from 'verbmq';
import { PubsubBroker, pubsubChannels } from 'verbmq/pubsub';
import { QueueBroker, queueChannels } from 'verbmq/queue';
import { rpcChannels, rpcStats, serve } from 'verbmq/rpc';
import { describe, expect, it, onTestFinished } from 'vitest';

// docs/observing.md says what there is to see; this compares it with what there is.
const document = readFileSync(new URL('../docs/observing.md', import.meta.url), 'utf8');

/** What stands in backquotes in the first column of the table below a heading. */
function firstColumn(heading: string): string[] {
  const section = document.split(/^#+ /m).find((text) => text.startsWith(`${heading}\n`));
  const cells = [...(section ?? '').matchAll(/^\| (`.*?) \|/gm)].map(([, cell]) => cell as string);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string));
}

async function accepted(): Promise<{
  connection: Connection;
  listenerStats: object;
  transportStats: object;
}> {
  const transport = new TcpTransport();
  onTestFinished(() => transport.close());
  const listener = await transport.listen('tcp://127.0.0.1:0');
  const connection = await transport.connect(listener.url);
  return { connection, listenerStats: listener.stats(), transportStats: transport.stats() };
}

describe('what docs/observing.md says', () => {
  it('of channels', () => {
    const here = [...Object.values(channels), pathChannel].map(({ name }) => String(name));
    expect(firstColumn('Channels').sort()).toEqual(here.sort());
  });

  it('of tracing channels', () => {
    const here = Object.values({ ...rpcChannels, ...queueChannels, ...pubsubChannels }).map(({ start }) =>
      String(start.name).replace(/^tracing:(.*):start$/, '$1'),
    );
    expect(document.match(/(?<=`)verbmq:(rpc|queue|pubsub):\w+(?=`)/g)?.sort()).toEqual(here.sort());
  });

  it('of a connection, a listener and a transport', async () => {
    const { connection, listenerStats, transportStats } = await accepted();
    expect(firstColumn('A connection').sort()).toEqual(Object.keys(connection.stats()).sort());
    expect(firstColumn('Rpc on one connection').sort()).toEqual(Object.keys(rpcStats(connection)).sort());
    expect(firstColumn('A listener').sort()).toEqual(Object.keys(listenerStats).sort());
    expect(firstColumn('A transport').sort()).toEqual(Object.keys(transportStats).sort());
  });

  it('of an RDMA transport', () => {
    const stats = new RdmaTransport({ sharedReceiveQueue: { slots: 32 } }).stats();
    const all = [...firstColumn('A transport'), ...firstColumn('An RDMA transport')];
    expect(all.sort()).toEqual(Object.keys(stats).sort());
    const shared = Object.keys(stats.sharedReceiveQueue ?? {});
    expect(firstColumn('Shared receive slots').sort()).toEqual(shared.sort());
  });

  it('of servers and brokers', async () => {
    const listener = await listen('tcp://127.0.0.1:0');
    const queues = new QueueBroker();
    const server = serve(listener, { ...queues.service });
    onTestFinished(() => server.close());
    await queues.push('packing', 'tea');
    const told: [string, object | undefined][] = [
      ['A server of rpc', server.stats()],
      ['A queue broker', queues.stats()],
      ['A queue', queues.stats('packing')],
      ['A broker of topics', new PubsubBroker().stats()],
    ];
    for (const [heading, stats] of told)
      expect(firstColumn(heading).sort()).toEqual(Object.keys(stats ?? {}).sort());
  });
});
