// What auto does across a move, on a device whose queue pairs the kernel makes: the rest of its tests has memory or a simulated device
// in its place. The fast path breaks because an end of it is aborted below auto.
import { readFileSync } from 'node:fs';
import type { Address, Connection } from '@verbmq/core';
import { type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { type RdmaConnectOptions, RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, onTestFinished, test } from 'vitest';
import { acrossAMove } from '../support/across-a-move.js';
import { asAuto, onFast, pathIs } from '../support/auto-pair.js';
import { streamsBetween } from '../support/numbered-stream.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { rdmaAddresses } from '../support/transports/rdma.js';

const { listen, source } = rdmaAddresses();
const pem = (name: string): string =>
  readFileSync(new URL(`../support/certificate/${name}.pem`, import.meta.url), 'utf8');

/** Remembers the last connection that it has made. */
class RememberingTransport extends RdmaTransport {
  last: Connection | undefined;

  override async connect(address: Address, options?: RdmaConnectOptions): Promise<Connection> {
    const local = source === undefined ? {} : { localAddress: source };
    this.last = await super.connect(address, { ...options, ...local });
    return this.last;
  }
}

async function pairOf(options: AutoOptions, tls?: { readonly server: object; readonly client: object }) {
  const rdma = new RememberingTransport();
  const make = (fast: RdmaTransport): AutoTransport => {
    const transport = new AutoTransport({
      minFastRetryMs: 10,
      maxFastRetryMs: 100,
      maxMessageBytes: 1 << 20,
      ...options,
      base: new TcpTransport(),
      fast,
    });
    onTestFinished(() => transport.close());
    return transport;
  };
  const listener = await make(new RdmaTransport()).listen(
    { host: tls === undefined ? listen : 'localhost', port: 0 },
    { fastAddresses: [{ host: listen, port: 0 }], ...(tls && { tls: tls.server }) },
  );
  const accepted = nextConnection(listener);
  const connecting = make(rdma).connect(listener.address, tls && ({ tls: tls.client } as object));
  const client = asAuto(abortAfterTest(await connecting));
  const server = asAuto(abortAfterTest(await accepted));
  return { client, server, breakFast: () => rdma.last?.abort('the test breaks it') };
}

describe(`auto on ${process.env.VERBMQ_GUEST_DRIVER ?? 'a device'}`, () => {
  test('moves to RDMA and back in the middle of traffic, and nothing is lost, repeated or reordered', async () => {
    const { client, server, breakFast } = await pairOf({});
    const { traffic, progress } = streamsBetween(client, server, 100_000);
    for (let round = 0; round < 3; round++) {
      expect((await onFast(client)).kind).toBe('rdma');
      await progress(20);
      const left = pathIs(client, ({ fast }) => !fast);
      breakFast();
      await left;
      await progress(5);
    }
    await onFast(client);
    await Promise.all(traffic.map((stream) => stream.finish()));
  });

  test('leaves TLS for RDMA where both sides say that it may', async () => {
    const identity = { key: pem('key'), cert: pem('certificate') };
    const tls = { server: identity, client: { ca: identity.cert } };
    const { client, server } = await pairOf({ unencryptedFastPath: true }, tls);
    const { traffic, progress } = streamsBetween(client, server, 10_000);
    expect((await onFast(client)).kind).toBe('rdma');
    await progress(20);
    await Promise.all(traffic.map((stream) => stream.finish()));
  });

  acrossAMove(pairOf);
});
