import type { Address, Connection } from '@verbmq/core';
import { type AutoConnection, type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { type RdmaConnectOptions, RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { onTestFinished } from 'vitest';
import { asAuto, QUICK } from './auto-pair.js';
import { abortAfterTest, nextConnection } from './pair.js';
import { stretched } from './set-up.js';
import { type TcpProxy, tcpProxy } from './tcp-proxy.js';
import type { RdmaAddresses } from './transports/rdma.js';

/** RDMA whose connections end when a test wants it, as they do when the device gives them up. */
class BreakableRdma extends RdmaTransport {
  readonly #connections = new Set<Connection>();

  override async connect(address: Address, options?: RdmaConnectOptions): Promise<Connection> {
    const connection = await super.connect(address, options);
    this.#connections.add(connection);
    void connection.closed.then(() => this.#connections.delete(connection));
    return connection;
  }

  break(): void {
    for (const connection of this.#connections) connection.abort('the test breaks this path');
  }
}

export interface AutoRdmaPair {
  readonly client: AutoConnection;
  readonly server: AutoConnection;
  /** Ends the RDMA connection; a new one works. */
  breakFast(): void;
  /** What TCP goes through. */
  readonly base: TcpProxy;
}

/** Both ends of a connection as users have it, upon TCP with RDMA on a device that is there, and both paths can be broken. */
export async function autoRdmaPair(
  { listen, source }: RdmaAddresses,
  options: AutoOptions = {},
): Promise<AutoRdmaPair> {
  const rdma = new BreakableRdma({ ...(source !== undefined && { localAddress: source }) });
  const make = (fast: RdmaTransport): AutoTransport => {
    const transport = new AutoTransport({
      ...QUICK,
      fastTimeoutMs: stretched(500),
      ...options,
      base: new TcpTransport(),
      fast,
    });
    onTestFinished(() => transport.close());
    return transport;
  };
  const listener = await make(new RdmaTransport()).listen('verbmq://127.0.0.1:0', {
    fastAddresses: [{ host: listen, port: 0 }],
  });
  const base = await tcpProxy(Number(listener.url.split(':').at(-1)));
  const accepted = nextConnection(listener);
  const client = asAuto(abortAfterTest(await make(rdma).connect(`verbmq://127.0.0.1:${base.port}`)));
  const server = asAuto(abortAfterTest(await accepted));
  return { client, server, breakFast: () => rdma.break(), base };
}
