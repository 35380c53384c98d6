import { expect, test } from 'vitest';
import { expectBytes, pattern, take } from '../../support/messages.js';
import { connectPair, transportForTest } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';

export function lifecycle(setUp: SetUp): void {
  test('probe says that the transport works here', async () => {
    const transport = transportForTest(setUp);
    expect(await transport.probe()).toMatchObject({ available: true });
  });

  test('a new connection is open on both sides and says what it is', async () => {
    const { client, server, listener } = await connectPair(setUp);
    expect(client).toMatchObject({ state: 'open', direction: 'out', kind: setUp.kind });
    expect(server).toMatchObject({ state: 'open', direction: 'in', kind: setUp.kind });
    expect(listener.kind).toBe(setUp.kind);
    expect(client.id).not.toBe(server.id);
    expect(client.remoteAddress).toEqual(listener.address);
    expect(server.localAddress).toEqual(listener.address);
  });

  test('connections have the capabilities that this suite was told', async () => {
    const { client, server } = await connectPair(setUp);
    expect(client.capabilities).toEqual(setUp.capabilities);
    expect(server.capabilities).toEqual(setUp.capabilities);
  });

  test('both sides agree on the smaller maxMessageBytes', async () => {
    const smallerServer = await connectPair(setUp, {
      client: { maxMessageBytes: 4000 },
      server: { maxMessageBytes: 3000 },
    });
    expect(smallerServer.client.maxMessageBytes).toBe(3000);
    expect(smallerServer.server.maxMessageBytes).toBe(3000);
    const smallerClient = await connectPair(setUp, {
      client: { maxMessageBytes: 2000 },
      server: { maxMessageBytes: 3000 },
    });
    expect(smallerClient.client.maxMessageBytes).toBe(2000);
    expect(smallerClient.server.maxMessageBytes).toBe(2000);
  });

  test('options of a connect or a listen win over those of the transport', async () => {
    const { client } = await connectPair(setUp, {
      both: { maxMessageBytes: 3000 },
      connect: { maxMessageBytes: 1000 },
    });
    expect(client.maxMessageBytes).toBe(1000);
  });

  test('messages go both ways', async () => {
    const { client, server } = await connectPair(setUp);
    await client.send(pattern(100, 1));
    await server.send(pattern(200, 2));
    expectBytes((await take(server, 1))[0]!, pattern(100, 1));
    expectBytes((await take(client, 1))[0]!, pattern(200, 2));
  });

  test('the side that listens may send first', async () => {
    const { client, server } = await connectPair(setUp);
    await server.send(pattern(50));
    expectBytes((await take(client, 1))[0]!, pattern(50));
  });

  test('close ends both sides in order and says who began', async () => {
    const { client, server } = await connectPair(setUp);
    const closing = client.close();
    expect(client.state).toBe('closing');
    expect(await closing).toEqual({ graceful: true, initiator: 'local' });
    expect(await server.closed).toEqual({ graceful: true, initiator: 'remote' });
    expect(client.state).toBe('closed');
    expect(server.state).toBe('closed');
  });

  test('the side that listens may close', async () => {
    const { client, server } = await connectPair(setUp);
    expect(await server.close()).toEqual({ graceful: true, initiator: 'local' });
    expect(await client.closed).toEqual({ graceful: true, initiator: 'remote' });
  });

  test('close answers every caller alike', async () => {
    const { client } = await connectPair(setUp);
    const answers = await Promise.all([client.close(), client.close(), client.closed]);
    expect(answers[1]).toBe(answers[0]);
    expect(answers[2]).toBe(answers[0]);
    expect(await client.close()).toBe(answers[0]);
  });

  test('a connection is closed when it is disposed of', async () => {
    const { client, server } = await connectPair(setUp);
    await client[Symbol.asyncDispose]();
    expect(client.state).toBe('closed');
    expect(await server.closed).toEqual({ graceful: true, initiator: 'remote' });
  });

  test('a transport that closes takes its listeners and connections with it, in order', async () => {
    const { client, server, listener, serverTransport } = await connectPair(setUp);
    await client.send(pattern(10));
    const received = take(server, 1);
    await received;
    await serverTransport.close();
    await listener.closed;
    expect(await server.closed).toMatchObject({ graceful: true });
    expect(await client.closed).toEqual({ graceful: true, initiator: 'remote' });
    await serverTransport.close();
  });

  test('a transport is closed when it is disposed of', async () => {
    const { client, clientTransport } = await connectPair(setUp);
    await clientTransport[Symbol.asyncDispose]();
    expect(client.state).toBe('closed');
  });
}
