// Messages leave a base connection that is encrypted only where both sides have said that they may.
import type { Address, Connection, Listener } from '@verbmq/core';
import { type AutoConnection, type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import { expect, onTestFinished, test } from 'vitest';
import { asAuto, onFast, pathIs } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { tcpSetUp, tlsSetUp } from '../support/transports/tcp.js';

interface Sides {
  readonly listen: (options?: AutoOptions) => Promise<Listener>;
  readonly connect: (address: Address, options?: AutoOptions) => Promise<Connection>;
}

/** Two sides with a fast path in this process, upon TCP or TLS. */
function sides(base: SetUp): Sides {
  const network = new MemoryNetwork();
  const transport = (): AutoTransport => {
    const made = new AutoTransport({
      base: base.createTransport(),
      fast: new MemoryTransport({ network }),
    });
    onTestFinished(() => made.close());
    return made;
  };
  const [server, client] = [transport(), transport()];
  return {
    listen: (options) => server.listen(base.listenAddress(), options),
    connect: (address, options) => client.connect(address, options),
  };
}

async function pairOf(
  { listen, connect }: Sides,
  options: { server?: AutoOptions; client?: AutoOptions },
): Promise<{ client: AutoConnection; server: AutoConnection }> {
  const listener = await listen(options.server);
  const accepted = nextConnection(listener);
  const client = asAuto(abortAfterTest(await connect(listener.address, options.client)));
  return { client, server: asAuto(abortAfterTest(await accepted)) };
}

const MAY = { unencryptedFastPath: true };

test('with TLS the fast path is not used unless both sides say so, and both know why', async () => {
  const { client, server } = await pairOf(sides(tlsSetUp()), {});
  expect(client.path).toMatchObject({
    kind: 'tls',
    fast: false,
    reason: 'encrypted',
    peerReason: 'encrypted',
  });
  expect(server.path).toMatchObject({
    kind: 'tls',
    fast: false,
    reason: 'encrypted',
    peerReason: 'encrypted',
  });
  await client.send(numbered(1));
  expect((await take(server, 1)).map(numberOf)).toEqual([1]);
});

test.each(['client', 'server'] as const)('what the %s alone says is not enough', async (willing) => {
  const pair = await pairOf(sides(tlsSetUp()), { [willing]: MAY });
  const unwilling = willing === 'client' ? 'server' : 'client';
  expect(pair[unwilling].path).toMatchObject({ kind: 'tls', reason: 'encrypted' });
  expect(await pathIs(pair[willing], ({ reason }) => reason === 'peer-declined')).toMatchObject({
    kind: 'tls',
    peerReason: 'encrypted',
  });
});

test('where both say so it is used', async () => {
  const { client, server } = await pairOf(sides(tlsSetUp()), { client: MAY, server: MAY });
  await Promise.all([onFast(client), onFast(server)]);
});

test('without TLS nobody has to say so', async () => {
  const { client, server } = await pairOf(sides(tcpSetUp()), {});
  await Promise.all([onFast(client), onFast(server)]);
});

test('who requires it over TLS must say so', async () => {
  const required = { policy: 'require-rdma' } as const;
  const { listen, connect } = sides(tlsSetUp());
  expect(await failure(listen(required), 'ERR_VERBMQ_UNAVAILABLE')).toMatchObject({ reason: 'encrypted' });
  const named = { fastAddresses: [{ host: 'named', port: 1 }] };
  expect(await failure(listen(named), 'ERR_VERBMQ_UNAVAILABLE')).toMatchObject({ reason: 'encrypted' });
  const listener = await listen();
  listener.onConnection((connection) => void abortAfterTest(connection));
  const { address } = listener;
  const refused = await failure(connect(address, required), 'ERR_VERBMQ_UNAVAILABLE');
  expect(refused).toMatchObject({
    reason: 'encrypted',
    message: expect.stringContaining('unencryptedFastPath'),
  });
  const declined = await failure(connect(address, { ...required, ...MAY }), 'ERR_VERBMQ_UNAVAILABLE');
  expect(declined.message).toContain('the peer says encrypted');
  const { client } = await pairOf(sides(tlsSetUp()), { client: { ...required, ...MAY }, server: MAY });
  expect(client.path.fast).toBe(true);
});
