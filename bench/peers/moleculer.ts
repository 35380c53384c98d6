import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type BrokerOptions, type Context, ServiceBroker } from 'moleculer';
import type { EchoContestant } from '../contestants/contestant.js';

const SERVER = 'server';
/** Room for messages of 1 MiB and their packets; by default that is the limit of both. */
const MAX_PACKET_BYTES = 2 * 1024 * 1024;

/**
 * moleculer over its TCP transporter, without discovery. The fastest of its serializers by its own figures (release 0.14.14)
 * is CBOR, which also carries bytes. Logger, metrics, tracing and the validator are off.
 */
export function moleculer(): EchoContestant {
  let broker: ServiceBroker | undefined;
  return {
    async listen() {
      const port = await freePort();
      broker = createBroker(SERVER, { port });
      broker.createService({
        name: 'bench',
        actions: { echo: (context: Context<{ data: Uint8Array }>) => context.params.data },
      });
      await broker.start();
      return { address: `127.0.0.1:${port}/${SERVER}` };
    },

    async connect(address) {
      const caller = createBroker('client', { urls: [address] });
      await caller.start();
      await caller.waitForServices('bench');
      return {
        call: (data) => caller.call<Uint8Array, { data: Uint8Array }>('bench.echo', { data }),
        close: () => caller.stop(),
      };
    },

    async close() {
      await broker?.stop();
    },
  };
}

function createBroker(nodeID: string, place: { port?: number; urls?: string[] }): ServiceBroker {
  const transporter = {
    type: 'TCP',
    options: { udpDiscovery: false, useHostname: false, maxPacketSize: MAX_PACKET_BYTES, ...place },
  };
  const options: BrokerOptions = {
    nodeID,
    transporter,
    serializer: 'CBOR',
    logger: false,
    metrics: false,
    tracing: false,
    validator: false,
  };
  return new ServiceBroker(options);
}

/** Who listens on any port does not tell which. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
